// The expected results of reductions, one element at a time, computed only with explicit arithmetic
// on doubles and 64-bit integers. Shares no code with the kernels. Elements are passed as bit
// patterns.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rondo/types.h"

namespace rondo::test {

/// A binary floating-point format of up to 16 bits.
struct Format {
  int exponent_bits, mantissa_bits;
  bool infinity; ///< false: only the code of all ones is NaN, and overflow gives the largest number

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  std::uint32_t signBit() const { return 1u << (bits() - 1); }
  std::uint32_t infinityCode() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  std::uint32_t nanCode() const { return signBit() - 1; }
  std::uint32_t largestCode() const { return infinity ? infinityCode() - 1 : nanCode() - 1; }

  bool isNan(std::uint32_t code) const {
    const std::uint32_t magnitude = code & (signBit() - 1);
    return infinity ? magnitude > infinityCode() : magnitude == nanCode();
  }

  double decode(std::uint32_t code) const {
    const std::uint32_t magnitude = code & (signBit() - 1);
    const double sign = code & signBit() ? -1 : 1;
    if (isNan(code)) return std::numeric_limits<double>::quiet_NaN();
    if (infinity && magnitude == infinityCode()) return sign * HUGE_VAL;
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const int mantissa = static_cast<int>(magnitude & ((1u << mantissa_bits) - 1));
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - bias() - mantissa_bits);
  }

  /// The distance between the numbers around a finite value, as the exponent of two.
  int ulpExponent(double value) const {
    int exponent = 0;
    std::frexp(value, &exponent); // value = [0.5, 1) * 2^exponent
    return std::max(exponent - 1, 1 - bias()) - mantissa_bits;
  }

  std::uint32_t encode(double value) const {
    if (std::isnan(value)) return nanCode();
    const std::uint32_t sign = std::signbit(value) ? signBit() : 0;
    const std::uint32_t overflow = infinity ? infinityCode() : largestCode();
    const double magnitude = std::fabs(value);
    if (std::isinf(value)) return sign | overflow;
    const int ulp = magnitude == 0 ? 0 : ulpExponent(magnitude);
    const double units = std::ldexp(magnitude, -ulp); // exact: a power of two
    double whole = std::floor(units);
    const double rest = units - whole;
    if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1)) whole += 1;
    const double rounded = std::ldexp(whole, ulp);
    if (rounded > decode(largestCode())) return sign | overflow;
    if (rounded == 0) return sign;
    const int e = ulpExponent(rounded) + mantissa_bits + bias(); // biased, if normal
    const auto digits = static_cast<std::uint32_t>(std::ldexp(rounded, -ulpExponent(rounded)));
    if (digits < (1u << mantissa_bits)) return sign | digits; // subnormal
    return sign | (static_cast<std::uint32_t>(e) << mantissa_bits) |
           (digits - (1u << mantissa_bits));
  }
};

inline Format smallFormat(DataType type) {
  const detail::DataTypeTraits::Format format = traits(type).format;
  return {format.exponent, format.mantissa, format.infinity};
}

inline bool isSmallFloat(DataType type) {
  return isFloat(type) && type != DataType::float32 && type != DataType::float64;
}
inline bool isNanBits(DataType type, std::uint64_t bits) {
  if (!isFloat(type)) return false;
  if (type == DataType::float64) return std::isnan(std::bit_cast<double>(bits));
  if (type == DataType::float32)
    return std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return smallFormat(type).isNan(static_cast<std::uint32_t>(bits));
}

/// The element nearest to a number, which must be a whole one if the type is an integer's.
inline std::uint64_t elementOf(DataType type, double value) {
  if (!isFloat(type)) return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  if (type == DataType::float64) return std::bit_cast<std::uint64_t>(value);
  if (type == DataType::float32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return smallFormat(type).encode(value);
}

/// Equal bits, or both NaN: kernels may return any NaN.
inline bool sameElement(DataType type, std::uint64_t a, std::uint64_t b) {
  return a == b || (isNanBits(type, a) && isNanBits(type, b));
}

template <typename F>
F combineFloats(ReduceOp::Kind op, F a, F b) {
  switch (op) {
    case ReduceOp::Kind::prod: return a * b;
    case ReduceOp::Kind::min:
    case ReduceOp::Kind::max: {
      if (std::isnan(a)) return b;
      if (std::isnan(b)) return a;
      const bool minimum = op == ReduceOp::Kind::min;
      if (a == 0 && b == 0) return std::signbit(a) == minimum ? a : b; // -0 is less than +0
      return (a < b) == minimum ? a : b;
    }
    default: return a + b;
  }
}

inline std::uint64_t combineIntegers(DataType type, ReduceOp::Kind op, std::uint64_t a,
                                     std::uint64_t b) {
  const std::size_t shift = 64 - 8 * sizeOf(type);
  switch (op) {
    case ReduceOp::Kind::prod: return (a * b) << shift >> shift;
    case ReduceOp::Kind::band: return a & b;
    case ReduceOp::Kind::bor: return a | b;
    case ReduceOp::Kind::bxor: return a ^ b;
    case ReduceOp::Kind::min:
    case ReduceOp::Kind::max: {
      const bool less = traits(type).isSignedInteger() ? static_cast<std::int64_t>(a << shift) <
                                                             static_cast<std::int64_t>(b << shift)
                                                       : a < b;
      return less == (op == ReduceOp::Kind::min) ? a : b;
    }
    default: return (a + b) << shift >> shift;
  }
}

/// The reduction of one element from each input, in the given order.
inline std::uint64_t reduceElement(DataType type, ReduceOp::Kind op,
                                   std::span<const std::uint64_t> inputs) {
  if (inputs.size() == 1) return inputs[0];
  if (!isFloat(type)) {
    std::uint64_t result = inputs[0];
    for (std::uint64_t x : inputs.subspan(1)) result = combineIntegers(type, op, result, x);
    return result;
  }
  if (type == DataType::float64) {
    double result = std::bit_cast<double>(inputs[0]);
    for (std::uint64_t x : inputs.subspan(1))
      result = combineFloats(op, result, std::bit_cast<double>(x));
    return std::bit_cast<std::uint64_t>(result);
  }
  const auto widen = [type](std::uint64_t bits) {
    const auto code = static_cast<std::uint32_t>(bits);
    return type == DataType::float32 ? std::bit_cast<float>(code)
                                     : static_cast<float>(smallFormat(type).decode(code));
  };
  float result = widen(inputs[0]);
  for (std::uint64_t x : inputs.subspan(1)) result = combineFloats(op, result, widen(x));
  return type == DataType::float32 ? std::bit_cast<std::uint32_t>(result)
                                   : smallFormat(type).encode(result);
}

/// An element times a factor.
inline std::uint64_t scaleElement(DataType type, std::uint64_t bits, double factor) {
  const std::size_t shift = 64 - 8 * sizeOf(type);
  if (type == DataType::float64)
    return std::bit_cast<std::uint64_t>(std::bit_cast<double>(bits) * factor);
  if (type == DataType::float32) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return std::bit_cast<std::uint32_t>(value * static_cast<float>(factor));
  }
  if (isFloat(type)) {
    const Format format = smallFormat(type);
    const auto value = static_cast<float>(format.decode(static_cast<std::uint32_t>(bits)));
    return format.encode(value * static_cast<float>(factor));
  }
  const bool is_signed = traits(type).isSignedInteger();
  const auto whole = static_cast<std::int64_t>(bits << shift) >> shift;
  double value = 0;
  if (sizeOf(type) <= 2)
    value = static_cast<float>(is_signed ? whole : static_cast<std::int64_t>(bits)) *
            static_cast<float>(factor);
  else value = (is_signed ? static_cast<double>(whole) : static_cast<double>(bits)) * factor;
  const int value_bits = static_cast<int>(8 * sizeOf(type)) - (is_signed ? 1 : 0);
  const std::uint64_t all = ~std::uint64_t{0} << shift >> shift;
  const std::uint64_t largest = is_signed ? all >> 1 : all;
  if (std::isnan(value)) return 0;
  if (value >= std::ldexp(1.0, value_bits)) return largest;
  const double smallest = is_signed ? -std::ldexp(1.0, value_bits) : 0;
  if (value <= smallest) return is_signed ? largest + 1 : 0;
  value = std::trunc(value);
  return value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) << shift >> shift
                   : static_cast<std::uint64_t>(value);
}

} // namespace rondo::test
