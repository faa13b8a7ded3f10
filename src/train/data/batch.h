// The samples of one pass through a network, and their shape.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::training {

/// Shape of one sample, or of a layer's output for it. Features without a position are channels of
/// 1 x 1.
struct SampleShape {
  std::size_t channels, height, width;

  std::size_t size() const { return channels * height * width; }
  bool operator==(const SampleShape&) const = default;
};

/// The creator of a batch owns its arrays. They must not change until the end of the backward pass.
struct Batch {
  std::size_t count;          ///< 1 or more
  const float* inputs;        ///< [count x channels x height x width], 64-byte aligned, normalised
  const std::uint8_t* labels; ///< [count], each below the number of classes
  /// [count], numbers of the samples in the whole data set; dropout derives its seeds from them.
  const std::uint32_t* samples;
};

} // namespace rondo::training
