// Reductions of one element, in plain C++, to check the kernels.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "kernels/reduce.h"

namespace rondo::kernels {
namespace {

/// A float of 8 or 16 bits.
struct SmallFloat {
  explicit SmallFloat(DataType type)
      : mantissa(traits(type).format.mantissa),
        bias((1 << (traits(type).format.exponent - 1)) - 1),
        has_infinity(traits(type).format.infinity),
        sign(std::uint32_t{1} << (8 * sizeOf(type) - 1)),
        infinity(has_infinity ? (2u * static_cast<unsigned>(bias) + 1) << mantissa : sign - 1) {}

  float widen(std::uint64_t bits) const {
    const auto magnitude = static_cast<std::uint32_t>(bits) & (sign - 1);
    float value = 0;
    if (magnitude >= infinity) {
      value = has_infinity && magnitude == infinity ? std::numeric_limits<float>::infinity()
                                                    : std::numeric_limits<float>::quiet_NaN();
    } else { // the exponents of fp32 have another bias
      value = std::ldexp(std::bit_cast<float>(magnitude << (23 - mantissa)), 127 - bias);
    }
    return bits & sign ? -value : value;
  }

  /// Rounds to nearest even.
  std::uint64_t round(float value) const {
    const std::uint32_t negative = std::signbit(value) ? sign : 0;
    if (std::isnan(value)) return sign - 1;
    const std::uint32_t overflow = has_infinity ? infinity : infinity - 1;
    if (std::isinf(value)) return negative | overflow;
    const double magnitude = std::fabs(static_cast<double>(value));
    const int least = 1 - bias;
    const int exponent = magnitude == 0 ? least : std::max(std::ilogb(magnitude), least);
    // Numbers from 2^52 on have no digits after the point, so the addition rounds.
    const double units = std::ldexp(magnitude, mantissa - exponent) + 0x1p52 - 0x1p52;
    // The digits contain the leading one, if there is one, which adds one to the exponent.
    const std::uint32_t code = (static_cast<std::uint32_t>(exponent - least) << mantissa) +
                               static_cast<std::uint32_t>(units);
    return negative | std::min(code, overflow);
  }

  int mantissa, bias;
  bool has_infinity;
  std::uint32_t sign;
  std::uint32_t infinity; ///< or NaN, if there is no infinity
};

bool isSmall(DataType type) { return isFloat(type) && sizeOf(type) <= 2; }

float floatOf(DataType type, std::uint64_t bits) {
  return isSmall(type) ? SmallFloat(type).widen(bits)
                       : std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

std::uint64_t bitsOf(DataType type, float value) {
  return isSmall(type) ? SmallFloat(type).round(value) : std::bit_cast<std::uint32_t>(value);
}

template <class F>
F combine(ReduceOp::Kind op, F a, F b) {
  if (op == ReduceOp::Kind::prod) return a * b;
  if (op != ReduceOp::Kind::min && op != ReduceOp::Kind::max) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
  const bool a_is_less = a < b || (a == b && std::signbit(a));
  return a_is_less == (op == ReduceOp::Kind::min) ? a : b;
}

/// `unused`: the bits of a word that the type does not use.
std::uint64_t combine(ReduceOp::Kind op, std::uint64_t a, std::uint64_t b, bool is_signed,
                      std::size_t unused) {
  const std::uint64_t high_a = a << unused, high_b = b << unused;
  const bool a_is_less =
      is_signed ? static_cast<std::int64_t>(high_a) < static_cast<std::int64_t>(high_b) : a < b;
  switch (op) {
    case ReduceOp::Kind::prod: return (a * b) << unused >> unused;
    case ReduceOp::Kind::min: return a_is_less ? a : b;
    case ReduceOp::Kind::max: return a_is_less ? b : a;
    case ReduceOp::Kind::band: return a & b;
    case ReduceOp::Kind::bor: return a | b;
    case ReduceOp::Kind::bxor: return a ^ b;
    default: return (a + b) << unused >> unused;
  }
}

} // namespace

std::uint64_t reduceElement(DataType type, ReduceOp::Kind op,
                            std::span<const std::uint64_t> inputs) {
  const auto others = inputs.subspan(1);
  if (!isFloat(type)) {
    std::uint64_t result = inputs[0];
    for (const std::uint64_t other : others)
      result = combine(op, result, other, traits(type).isSignedInteger(), 64 - 8 * sizeOf(type));
    return result;
  }
  if (type == DataType::float64) {
    auto result = std::bit_cast<double>(inputs[0]);
    for (const std::uint64_t other : others)
      result = combine(op, result, std::bit_cast<double>(other));
    return std::bit_cast<std::uint64_t>(result);
  }
  float result = floatOf(type, inputs[0]);
  for (const std::uint64_t other : others) result = combine(op, result, floatOf(type, other));
  return bitsOf(type, result);
}

std::uint64_t scaleElement(DataType type, std::uint64_t element, double factor) {
  if (type == DataType::float64)
    return std::bit_cast<std::uint64_t>(std::bit_cast<double>(element) * factor);
  if (isFloat(type)) return bitsOf(type, floatOf(type, element) * static_cast<float>(factor));
  scaleFunction(type)(&element, &element, 1, factor); // scalar code, too
  return element;
}

bool sameElement(DataType type, std::uint64_t a, std::uint64_t b) {
  if (a == b || !isFloat(type)) return a == b;
  if (type == DataType::float64)
    return std::isnan(std::bit_cast<double>(a)) && std::isnan(std::bit_cast<double>(b));
  return std::isnan(floatOf(type, a)) && std::isnan(floatOf(type, b));
}

std::string elementText(DataType type, std::uint64_t element) {
  const std::size_t unused = 64 - 8 * sizeOf(type);
  if (traits(type).isSignedInteger())
    return std::to_string(static_cast<std::int64_t>(element << unused) >> unused);
  if (!isFloat(type)) return std::to_string(element);
  const bool is_double = type == DataType::float64;
  char text[64];
  std::snprintf(
      text, sizeof text, "%.*g (0x%0*llx)", is_double ? 17 : 9,
      is_double ? std::bit_cast<double>(element) : static_cast<double>(floatOf(type, element)),
      static_cast<int>(2 * sizeOf(type)), static_cast<unsigned long long>(element));
  return text;
}

} // namespace rondo::kernels
