// The samples of one pass through a network.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::training {

/// Of one sample, or of what a layer makes of it. Features without a place are channels of 1 x 1.
struct SampleShape {
  std::size_t channels, height, width;

  std::size_t size() const { return channels * height * width; }
  bool operator==(const SampleShape&) const = default;
};

/// Its arrays belong to whoever made them, and stay as they are until the pass back has ended.
struct Batch {
  std::size_t count;          ///< 1 or more
  const float* inputs;        ///< [count x channels x height x width], 64-byte aligned, normalised
  const std::uint8_t* labels; ///< [count], each below the number of classes
  const std::uint32_t* samples; ///< [count], their numbers in the whole set: the keys of dropout
};

} // namespace rondo::training
