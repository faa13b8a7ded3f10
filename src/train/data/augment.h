// Random changes of training images that do not change their class.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::training {

struct Augmentation {
  bool flip = false; ///< mirrors half of the images from left to right
  /// Adds a border of this many black pixels, and crops the original size at a random place.
  std::size_t padding = 0;

  bool any() const { return flip || padding > 0; }
};

/// How a sample is shown: output pixel (y, x) is input pixel (y + down, x + right), or black if
/// that is outside of the image. If `mirrored`, the result is then mirrored.
struct View {
  std::ptrdiff_t down = 0, right = 0;
  bool mirrored = false;
};

/// Draws how a sample is shown. Depends only on its arguments: the number of ranks, the number of
/// micro-batches, and resuming do not change how a sample is shown.
View drawView(const Augmentation& augmentation, std::uint64_t seed, int epoch,
              std::uint32_t sample);

} // namespace rondo::training
