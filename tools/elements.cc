// Encodes numbers as elements of any data type, independently of the kernels under test.
#include "tools/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace rondo::tools {

namespace {

/// Encodes a float type that is narrower than 32 bits.
std::uint64_t encodeNarrow(detail::DataTypeTraits::Format format, double value) {
  const std::uint64_t sign = std::signbit(value) ? 1 : 0;
  int exponent = 0; // |value| = fraction * 2^exponent, fraction in [0.5, 1)
  std::frexp(value, &exponent);
  const int bias = (1 << (format.exponent - 1)) - 1;
  const int lowest = 1 - bias; // the exponent of all subnormal numbers
  const int scale = value == 0 ? lowest : std::max(exponent - 1, lowest);
  // In units of the last place; nearbyint() rounds to nearest even.
  const double units = std::nearbyint(std::ldexp(std::fabs(value), format.mantissa - scale));
  // The implicit bit, if there is one, carries into the exponent; so does rounding up.
  const auto above = static_cast<std::uint64_t>(scale - lowest);
  const std::uint64_t magnitude = (above << format.mantissa) + static_cast<std::uint64_t>(units);
  return (sign << (format.exponent + format.mantissa)) | magnitude;
}

} // namespace

std::uint64_t encodeFloat(DataType type, double value) {
  if (type == DataType::float64) return std::bit_cast<std::uint64_t>(value);
  if (type == DataType::float32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return encodeNarrow(traits(type).format, value);
}

std::int64_t exactLimit(DataType type) {
  constexpr int kMostBits = 20;
  const detail::DataTypeTraits& row = traits(type);
  // A float has an implicit bit besides its mantissa, and 2^n itself is exact too.
  if (row.isFloat()) return std::int64_t{1} << std::min(row.format.mantissa + 1, kMostBits);
  const int bits = static_cast<int>(8 * row.bytes) - (row.isSigned() ? 1 : 0);
  return bits < kMostBits ? (std::int64_t{1} << bits) - 1 : std::int64_t{1} << kMostBits;
}

void storeElement(DataType type, void* to, std::uint64_t bits) {
  std::memcpy(to, &bits, sizeOf(type)); // Rondo runs on little-endian machines only
}

} // namespace rondo::tools
