// The order of samples: Fisher and Yates' shuffle.
#include "train/sampler.h"

#include <numeric>
#include <utility>

#include "train/random.h"

namespace rondo::training {

std::vector<std::uint32_t> sampleOrder(std::uint32_t count, std::uint64_t seed, int epoch) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  // The epoch picks a place far along the seed's own sequence: (1, 2) must not look like (2, 1).
  Random random(Random(seed).next() + static_cast<std::uint64_t>(epoch));
  for (std::uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

} // namespace rondo::training
