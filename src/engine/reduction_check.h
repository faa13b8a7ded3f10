// Options::check_reductions: another rank computes some of the elements that this rank reduces
// again, to find a processor that computes wrongly.
//
// While a call reduces, each rank keeps samples: the operands and the result of some elements. When
// the call's plan is done, its run goes on with a plan of this class, which sends the samples to
// the next rank, and receives those of the rank before. So the exchange has the same deadlines as
// the rest of the call, and ends with it after a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/combine.h"
#include "engine/engine.h"

namespace rondo::engine {

/// For one communicator, of at least two ranks. No function blocks. Not thread-safe.
class ReductionCheck {
 public:
  /// One element in so many is a sample, at least one in each pass over operands. Which one of them
  /// changes from pass to pass: a processor may compute wrongly in one lane of its vectors only.
  static constexpr std::size_t kEvery = 1024;

  explicit ReductionCheck(Fabric& fabric);

  /// Call before operands are combined or scaled: keeps those of the samples.
  void before(const Run& run, const BoundStep& step, const Operands& operands, std::size_t count);
  /// Call before the output is divided (BoundPlan::divides).
  void beforeDivision(const Run& run);
  /// Call after either of these: keeps the results of the samples.
  void after();

  /// Whether the run exchanges samples now.
  bool exchanges(const Run& run) const { return run.plan == &first_ || run.plan == &more_; }
  /// Call when all steps of run.plan are done. If it returns true, the run must start with
  /// run.plan, which is another one now. If false, the run is complete, and has the plan and
  /// buffers of the call. Throws Error(wrong_result) that names the rank before this one.
  bool goOn(Run& run);

 private:
  /// A sample is these words: what was done, the element's number in the caller's buffer, operands,
  /// result. `own_` and `theirs_` begin with: number of words, Scaling::factor.
  struct What {
    std::size_t operands = 0;
    std::size_t scaled = 0; ///< one more than the index of the operand that is scaled first, or 0
    bool divided = false;   ///< the only operand, by the number of ranks
  };
  struct Sample {
    std::size_t offset = 0; ///< of the element in each operand, in bytes
    std::size_t result = 0; ///< its place in own_
  };

  BoundPlan planOf(std::size_t words) const;
  void keep(const Run& run, const What& what, const Operands& operands, std::size_t count);
  std::size_t random();
  void begin(Run& run);
  void exchange(Run& run, BoundPlan& plan);
  void checkArrived(bool first);
  std::size_t check(std::span<const std::uint64_t> words) const;
  std::uint64_t computed(const What& what, std::span<const std::uint64_t> operands) const;
  [[noreturn]] void fail(const What& what, std::span<const std::uint64_t> sample,
                         std::uint64_t right) const;
  [[noreturn]] void failMalformed() const;

  Fabric& fabric_;
  const int next_, previous_; ///< ranks
  BoundPlan first_;           ///< exchanges one short message
  BoundPlan more_;            ///< exchanges the rest, in longer messages

  std::uint64_t random_;
  std::vector<Sample> samples_;       ///< of this pass
  const std::byte* result_ = nullptr; ///< where this pass writes

  std::vector<std::uint64_t> own_; ///< padded to whole messages by begin()
  std::size_t own_words_ = 0;      ///< without the padding
  std::size_t sent_ = 0;           ///< of own_
  std::vector<std::uint64_t> theirs_;
  std::size_t unchecked_ = 0; ///< words of theirs_: the begin of a sample
  std::size_t missing_ = 0;   ///< words that have not been received
  double their_factor_ = 1;

  // Of the call whose samples are exchanged.
  BoundPlan* plan_ = nullptr;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  long long divisor_ = 1;
};

} // namespace rondo::engine
