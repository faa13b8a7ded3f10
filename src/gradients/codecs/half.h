// Converts float32 to the 16-bit floats and back, without branches, so that compilers vectorise
// loops over these functions.
#pragma once

#include <bit>
#include <cstdint>

namespace rondo::gradients {

/// Rounds to nearest even; NaN stays NaN.
inline std::uint16_t toBfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<std::uint16_t>((nan ? bits | 0x400000 : rounded) >> 16);
}
inline float fromBfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// IEEE binary16. Rounds to nearest even; numbers that are too large become infinite; NaN stays
/// NaN.
inline std::uint16_t toFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  // Below 2^-14 the result is subnormal: adding 0.5 moves the last bit of the mantissa to the place
  // of the last bit of binary16's subnormals.
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000;
  // Otherwise the bias of the exponent changes, and the mantissa is rounded. Rounding may carry
  // into the exponent.
  const std::uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  std::uint32_t half = magnitude < 0x38800000 ? small : normal;
  half = magnitude >= 0x477ff000 ? 0x7c00 : half; // 65520 and more
  half = magnitude > 0x7f800000 ? 0x7e00 : half;
  return static_cast<std::uint16_t>(sign | half);
}
inline float fromFloat16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16, magnitude = bits & 0x7fffU;
  // Reads the bits as if the exponent had float's bias; the product corrects it, also for
  // subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  const std::uint32_t special = magnitude << 13 | 0x7f800000;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00 ? special : finite));
}

} // namespace rondo::gradients
