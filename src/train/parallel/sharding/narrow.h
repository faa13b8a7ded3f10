// Converts floats to bfloat16 and back in place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "rondo/gradients.h"

namespace rondo::training {

/// Converts block by block from the front: each block is read before its memory is overwritten.
class Narrow {
 public:
  static constexpr std::size_t kBytes = 2; ///< bytes of a bfloat16 value

  /// `to` may be the same memory as `from`.
  void narrow(const float* from, std::size_t count, void* to) {
    forBlocks(count, [&](std::size_t at, std::size_t size) {
      codec_->encode({from + at, size}, 1, {}, block_.data());
      std::memcpy(static_cast<std::byte*>(to) + at * kBytes, block_.data(), size * kBytes);
    });
  }

  /// Where the bfloat16 values must be in the memory of `count` floats before widen().
  static std::byte* place(float* values, std::size_t count) {
    return reinterpret_cast<std::byte*>(values) + count * (sizeof(float) - kBytes);
  }
  void widen(float* values, std::size_t count) {
    const std::byte* const from = place(values, count);
    forBlocks(count, [&](std::size_t at, std::size_t size) {
      std::memcpy(block_.data(), from + at * kBytes, size * kBytes);
      codec_->decode(block_.data(), {values + at, size});
    });
  }

 private:
  static constexpr std::size_t kBlock = 512;

  template <class Body>
  static void forBlocks(std::size_t count, const Body& body) {
    for (std::size_t at = 0; at < count; at += kBlock) body(at, std::min(kBlock, count - at));
  }

  std::unique_ptr<GradientCodec> codec_ = narrowCodec(DataType::bfloat16);
  alignas(64) std::array<std::byte, kBlock * kBytes> block_;
};

} // namespace rondo::training
