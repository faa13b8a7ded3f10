// Random changes of training images that leave their class what it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::training {

struct Augmentation {
  bool flip = false;       ///< mirror one half of the images from left to right
  std::size_t padding = 0; ///< surround by so many black pixels, and cut the size out again

  bool any() const { return flip || padding > 0; }
};

/// How a sample is shown: output pixel (y, x) is input pixel (y + down, x + right), black where
/// that lies outside; then mirrored, if so.
struct View {
  std::ptrdiff_t down = 0, right = 0;
  bool mirrored = false;
};

/// Depends on nothing but its arguments, so that no number of ranks or micro-batches, and no
/// resumed run, shows a sample another way.
View drawView(const Augmentation& augmentation, std::uint64_t seed, int epoch,
              std::uint32_t sample);

} // namespace rondo::training
