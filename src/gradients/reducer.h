// The state of a gradient reducer: which bucket waits for what, and what is on its way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradients/timeline.h"
#include "rondo/gradients.h"

namespace rondo {

class GradientReducer::Impl {
 public:
  Impl(std::vector<Communicator*> communicators, std::vector<Parameter> parameters,
       const GradientOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void* gradient(std::size_t parameter) const;
  void begin(bool synchronize);
  void ready(std::size_t parameter);
  void wait();
  bool shadow();
  std::vector<GradientBucket> buckets() const;
  const GradientStatistics& statistics() const { return statistics_; }
  std::vector<GradientBucketTimes> timeline() const;

 private:
  struct Slot {
    GradientBucket bucket;
    Buffer memory;
    std::size_t missing = 0; ///< parameters that are not ready
    Work work;
    bool over = false;       ///< the work was seen to be done
    std::uint64_t bytes = 0; ///< sent in the last step
    gradients::Interval time;
  };
  /// What a step knows of a parameter.
  struct Entry {
    std::size_t slot = 0, place = 0; ///< bucket, and number in it
    int expected = 1;                ///< calls of ready() in a step
    int calls = 0;                   ///< in this step
    bool used = false;               ///< since the last synchronised step
    std::uint64_t seen = 0;          ///< when it last became ready: grows from call to call
    std::vector<std::byte> saved;    ///< its gradient, while zeros stand in its place
  };

  std::byte* inBucket(const Entry& entry) const;
  Communicator& communicatorOf(std::size_t slot) const;
  bool learning() const { return options_.static_graph && !learned_; }
  /// Whether the ranks tell each other in this step what they used.
  bool sharesUse() const;
  std::string title(std::size_t parameter) const;
  void abort(const std::string& text) const;
  [[noreturn]] void fail(const std::string& text);

  void form(const std::vector<std::size_t>& order);
  void followObservedOrder();
  int open(bool with_data);
  void complete(std::size_t parameter);
  void contributeZeros(std::size_t parameter);
  void launchFull();
  void launch(std::size_t slot);
  void look();
  void await(Slot& slot);
  void checkComplete();
  void finish();
  void takeResults();
  void account(gradients::Clock::time_point waiting);

  const std::vector<Communicator*> communicators_;
  const std::vector<Parameter> parameters_;
  const GradientOptions options_;
  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
  std::vector<std::uint8_t> used_; ///< by any rank, where sharesUse() has told
  Work sharing_;
  bool open_ = false, synchronize_ = false, learned_ = false, formed_anew_ = false;
  std::size_t next_ = 0; ///< the bucket to launch next
  double factor_ = 1;
  ReduceOp op_ = ReduceOp::sum;
  std::uint64_t ticks_ = 0;
  GradientStatistics statistics_;
  gradients::Clock::time_point began_, first_ready_;
};

} // namespace rondo
