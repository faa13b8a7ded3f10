// State of a gradient reducer: which parameters each bucket still lacks, and what is in flight.
#pragma once

#include <sys/types.h>
#include <unistd.h>

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
  const std::vector<GradientBucketTimes>& timeline() const { return timeline_; }

 private:
  struct Slot {
    GradientBucket bucket;
    Buffer memory;
    std::size_t missing = 0; ///< parameters that are not ready yet
    Work work;
    bool over = false;       ///< the work is known to be complete
    std::uint64_t bytes = 0; ///< sent in the last step
    gradients::Interval time;
  };
  /// Progress of one parameter in a step.
  struct Entry {
    std::size_t slot = 0, place = 0; ///< its bucket, and its index in the bucket
    int expected = 1;                ///< calls of ready() per step
    int calls = 0;                   ///< calls of ready() in this step
    bool used = false;               ///< since the last synchronised step
    std::uint64_t seen = 0;          ///< time stamp of its last ready(), from ticks_; 0: never
    std::vector<std::byte> saved; ///< its own gradient, while its place in the bucket holds zeros
  };

  std::byte* inBucket(const Entry& entry) const;
  Communicator& communicatorOf(std::size_t slot) const;
  bool learning() const { return options_.static_graph && !learned_; }
  /// Whether ranks exchange in this step which parameters they used.
  bool sharesUse() const;
  std::string title(std::size_t parameter) const;
  void abort(const std::string& text) const;
  void requireNoGroup(const std::string& function);
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

  const pid_t process_ = ::getpid(); ///< a forked child does not wait for the calls of its parent
  const std::vector<Communicator*> communicators_;
  const std::vector<Parameter> parameters_;
  const GradientOptions options_;
  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
  std::vector<std::uint8_t> used_; ///< by any rank in this step, if sharesUse()
  Work sharing_;
  bool open_ = false, synchronize_ = false, learned_ = false, formed_anew_ = false;
  bool unfinished_ = false; ///< a step has begun to communicate, and its results are not complete
  std::size_t next_ = 0;    ///< the next bucket to start
  double factor_ = 1;
  ReduceOp op_ = ReduceOp::sum;
  std::uint64_t ticks_ = 0;
  GradientStatistics statistics_;
  std::vector<GradientBucketTimes> timeline_; ///< of the last step that was reduced
  gradients::Clock::time_point began_, first_ready_;
};

} // namespace rondo
