// Draws views from a random sequence that belongs to one (seed, epoch, sample).
#include "train/data/augment.h"

#include "rondo/detail/hash.h"
#include "train/random.h"

namespace rondo::training {

View drawView(const Augmentation& augmentation, std::uint64_t seed, int epoch,
              std::uint32_t sample) {
  // Each value is mixed in separately, so that changes of two values cannot cancel each other.
  const std::uint64_t key =
      detail::mix(detail::mix(detail::mix(seed) + static_cast<std::uint64_t>(epoch)) + sample);
  Random random(key);
  View view;
  const auto sides = static_cast<std::uint32_t>(2 * augmentation.padding + 1);
  const auto shift = [&] {
    return static_cast<std::ptrdiff_t>(random.below(sides)) -
           static_cast<std::ptrdiff_t>(augmentation.padding);
  };
  view.down = shift();
  view.right = shift();
  view.mirrored = augmentation.flip && random.below(2) == 1;
  return view;
}

} // namespace rondo::training
