// Encodes numbers as elements of any data type, independently of the kernels under test.
#include "tools/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace rondo::tools {

namespace {

/// A float type narrower than 32 bits: sign, exponent, mantissa.
struct Format {
  int exponent_bits, mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

Format formatOf(DataType type) {
  switch (type) {
    case DataType::float16: return {5, 10};
    case DataType::bfloat16: return {8, 7};
    case DataType::float8e4m3: return {4, 3};
    default: return {5, 2};
  }
}

std::uint64_t encodeNarrow(Format format, double value) {
  const std::uint64_t sign = std::signbit(value) ? 1 : 0;
  int exponent = 0; // |value| = fraction * 2^exponent, fraction in [0.5, 1)
  std::frexp(value, &exponent);
  const int lowest = 1 - format.bias(); // the exponent of all subnormal numbers
  const int scale = value == 0 ? lowest : std::max(exponent - 1, lowest);
  // In units of the last place; nearbyint() rounds to nearest even.
  const double units = std::nearbyint(std::ldexp(std::fabs(value), format.mantissa_bits - scale));
  // The implicit bit, if there is one, carries into the exponent; so does rounding up.
  const auto above = static_cast<std::uint64_t>(scale - lowest);
  const std::uint64_t magnitude =
      (above << format.mantissa_bits) + static_cast<std::uint64_t>(units);
  return (sign << (format.exponent_bits + format.mantissa_bits)) | magnitude;
}

} // namespace

std::uint64_t encodeFloat(DataType type, double value) {
  if (type == DataType::float64) return std::bit_cast<std::uint64_t>(value);
  if (type == DataType::float32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return encodeNarrow(formatOf(type), value);
}

std::int64_t exactLimit(DataType type) {
  switch (type) {
    case DataType::int8: return 127;
    case DataType::uint8: return 255;
    case DataType::int16: return 32767;
    case DataType::uint16: return 65535;
    case DataType::float16: return 1 << 11;
    case DataType::bfloat16: return 1 << 8;
    case DataType::float8e4m3: return 1 << 4;
    case DataType::float8e5m2: return 1 << 3;
    default: return 1 << 20;
  }
}

bool isSigned(DataType type) {
  return isFloat(type) || type == DataType::int8 || type == DataType::int16 ||
         type == DataType::int32 || type == DataType::int64;
}

void storeElement(DataType type, void* to, std::uint64_t bits) {
  std::memcpy(to, &bits, sizeOf(type)); // Rondo runs on little-endian machines only
}

} // namespace rondo::tools
