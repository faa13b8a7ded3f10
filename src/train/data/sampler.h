// Decides which samples each step, micro-batch and rank takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rondo::training {

/// Returns the numbers 0 to count - 1 in an order that depends on (seed, epoch) only.
std::vector<std::uint32_t> sampleOrder(std::uint32_t count, std::uint64_t seed, int epoch);

struct Range {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

/// Part `part` of `parts` equal parts of 0 to total - 1. The parts cover everything once, and their
/// sizes differ by at most one.
constexpr Range share(std::size_t total, std::size_t part, std::size_t parts) {
  return {total * part / parts, total * (part + 1) / parts};
}

/// What to do with samples that do not fill an epoch's last step.
enum class Remainder {
  drop,   ///< leaves them out; the shuffle makes them different ones in each epoch
  pad,    ///< fills the step with the first samples of the epoch's order
  uneven, ///< makes a smaller step of them, so each sample is used once per epoch
};
/// Throws Error(invalid_argument), which lists the valid words, for any other word.
Remainder remainderOf(std::string_view word);

/// The samples of each step, the same on all ranks; each rank takes its share of them. (epoch,
/// step) is the whole state, so nothing else needs to be in a checkpoint. Not thread-safe.
class Sampler {
 public:
  /// `batch` is the number of samples of one step over all ranks, 1 or more.
  Sampler(std::size_t count, std::size_t batch, std::uint64_t seed, Remainder remainder);

  /// Steps of each epoch. With `drop` it is 0 if there are fewer samples than a step takes.
  std::size_t steps() const { return steps_; }
  /// The samples of one step, 0 to steps() - 1. Valid until a call with another epoch. With
  /// `uneven` the last step may have fewer samples.
  std::span<const std::uint32_t> samples(int epoch, std::size_t step);

 private:
  const std::size_t count_, batch_, steps_;
  const std::uint64_t seed_;
  const bool pads_;
  int epoch_ = 0; ///< the epoch of order_, if order_ is not empty
  std::vector<std::uint32_t> order_;
};

} // namespace rondo::training
