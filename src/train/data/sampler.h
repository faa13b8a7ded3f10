// Which samples a step, a micro-batch and a rank take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rondo::training {

/// The numbers 0 to count - 1 in an order that depends on (seed, epoch) only.
std::vector<std::uint32_t> sampleOrder(std::uint32_t count, std::uint64_t seed, int epoch);

struct Range {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

/// Part `part` of `parts` of 0 to total - 1: parts cover everything once, sizes differ by one at
/// most.
constexpr Range share(std::size_t total, std::size_t part, std::size_t parts) {
  return {total * part / parts, total * (part + 1) / parts};
}

/// What becomes of samples that do not fill an epoch's last step.
enum class Remainder {
  drop,   ///< they are left out; each epoch's order leaves out others
  pad,    ///< the step is filled up with the first samples of the epoch's order
  uneven, ///< the step takes those that there are: each sample once in an epoch
};
/// Throws Error(invalid_argument) for another word, with those that there are.
Remainder remainderOf(std::string_view word);

/// The steps of epochs, the same on all ranks: each rank takes its shares of a step's samples.
/// Where training goes on behind a checkpoint, (epoch, step) says it all. One thread at a time.
class Sampler {
 public:
  /// `batch` is the samples of one step over all ranks: 1 or more.
  Sampler(std::size_t count, std::size_t batch, std::uint64_t seed, Remainder remainder);

  /// Of every epoch. With drop it is 0 if there are fewer samples than a step takes.
  std::size_t steps() const { return steps_; }
  /// The samples of step 0 to steps() - 1; good until another epoch is asked for. With `uneven`
  /// the last step may have fewer.
  std::span<const std::uint32_t> samples(int epoch, std::size_t step);

 private:
  const std::size_t count_, batch_, steps_;
  const std::uint64_t seed_;
  const bool pads_;
  int epoch_ = 0; ///< that order_ is of, if it is not empty
  std::vector<std::uint32_t> order_;
};

} // namespace rondo::training
