// Shuffles the order of samples by the algorithm of Fisher and Yates.
#include "train/data/sampler.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "train/named.h"
#include "train/random.h"

namespace rondo::training {

std::vector<std::uint32_t> sampleOrder(std::uint32_t count, std::uint64_t seed, int epoch) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  // The epoch is a distance in the seed's own sequence, so (seed 1, epoch 2) differs from (2, 1).
  Random random(Random(seed).next() + static_cast<std::uint64_t>(epoch));
  for (std::uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

Remainder remainderOf(std::string_view word) {
  struct Word {
    std::string_view name;
    Remainder value;
  };
  static constexpr auto kWords = std::to_array<Word>(
      {{"drop", Remainder::drop}, {"pad", Remainder::pad}, {"uneven", Remainder::uneven}});
  return named(kWords, "remainder", word).value;
}

Sampler::Sampler(std::size_t count, std::size_t batch, std::uint64_t seed, Remainder remainder)
    : count_(count),
      batch_(batch),
      steps_(remainder == Remainder::drop ? count / batch : (count + batch - 1) / batch),
      seed_(seed),
      pads_(remainder == Remainder::pad) {}

std::span<const std::uint32_t> Sampler::samples(int epoch, std::size_t step) {
  if (order_.empty() || epoch != epoch_) {
    order_ = sampleOrder(static_cast<std::uint32_t>(count_), seed_, epoch);
    epoch_ = epoch;
    // If there are fewer samples than one step takes, they are repeated more than once.
    for (std::size_t i = 0; pads_ && order_.size() < steps_ * batch_; ++i)
      order_.push_back(order_[i]);
  }
  const std::size_t begin = step * batch_;
  return std::span(order_).subspan(begin, std::min(batch_, order_.size() - begin));
}

} // namespace rondo::training
