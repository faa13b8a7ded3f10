// Single elements of the benchmark's inputs and results; data.h says how they are chosen.
#include "tools/bench/values.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "rondo/detail/hash.h"
#include "tools/elements.h"

namespace rondo::tools {

namespace {

using Kind = ReduceOp::Kind;

constexpr int kProductFactors = 4; ///< most factors of an element that are not 1 or -1
constexpr int kMultiplesBelow = 8; ///< smaller rank counts, doubled or not, are exact in fp8_e5m2

std::uint64_t bitsOf(int rank, std::size_t index) {
  return mix(static_cast<std::uint64_t>(rank) + 1, index);
}

/// Whether the rank is one of the at most `limit` ranks that contribute to this element. Ranks take
/// turns over the elements.
bool contributes(const Recipe& recipe, int rank, std::size_t index, std::int64_t limit) {
  const auto stride =
      static_cast<std::size_t>((recipe.ranks + limit - 1) / std::max<std::int64_t>(limit, 1));
  return (static_cast<std::size_t>(rank) + index) % stride == 0;
}

/// An integer; the absolute values over all ranks add up to at most `limit`.
std::int64_t smallInteger(const Recipe& recipe, int rank, std::size_t index, std::int64_t limit) {
  if (!contributes(recipe, rank, index, limit)) return 0;
  const std::int64_t largest = std::max<std::int64_t>(limit / recipe.ranks, 1);
  const std::uint64_t bits = bitsOf(rank, index) >> 8;
  const auto span = static_cast<std::uint64_t>(largest);
  if (traits(recipe.type).isSigned())
    return static_cast<std::int64_t>(bits % (2 * span + 1)) - largest;
  return static_cast<std::int64_t>(bits % (span + 1));
}

double averageInput(const Recipe& recipe, int rank, std::size_t index) {
  const std::int64_t limit = exactLimit(recipe.type);
  const auto ranks = static_cast<std::size_t>(recipe.ranks);
  if (std::has_single_bit(ranks) && ranks <= 64) {
    return static_cast<double>(smallInteger(recipe, rank, index, limit));
  }
  if (recipe.ranks < kMultiplesBelow) {
    // A power of two times the rank count: its product with a rounded 1/ranks is exact.
    const std::int64_t wanted = smallInteger(recipe, rank, index, limit);
    if (wanted == 0) return 0;
    const auto size = static_cast<std::uint64_t>(wanted < 0 ? -wanted : wanted);
    const auto power = static_cast<double>(std::bit_floor(size));
    return recipe.ranks * (wanted < 0 ? -power : power);
  }
  // 1/ranks is rounded, so only equal magnitudes add up (or cancel) without another rounding.
  const auto self = static_cast<std::size_t>(rank);
  if (self != index % ranks && self != (index * 7 + 3) % ranks) return 0;
  const double magnitude = index % 3 == 0 ? 16 : 8;
  return (bitsOf(rank, index) & 1) != 0 ? magnitude : -magnitude;
}

double productInput(const Recipe& recipe, int rank, std::size_t index) {
  const std::uint64_t bits = bitsOf(rank, index);
  double value = (bits & 1) != 0 ? 1 : -1;
  if (contributes(recipe, rank, index, kProductFactors)) {
    value = std::ldexp(value, static_cast<int>((bits >> 8) % 3) - 1);
  }
  return value;
}

/// As in the library: every contribution is multiplied by 1/ranks, then rounded.
double averagedContribution(const Recipe& recipe, double value) {
  if (recipe.type == DataType::float64) return value * (1.0 / recipe.ranks);
  const float scaled = static_cast<float>(value) * static_cast<float>(1.0 / recipe.ranks);
  if (recipe.type == DataType::float32) return scaled;
  // Rounds to the narrow type without decoding it: adds and subtracts in units of its last place.
  int exponent = 0;
  std::frexp(scaled, &exponent);
  const int digits = std::countr_zero(static_cast<std::uint64_t>(exactLimit(recipe.type)));
  return std::ldexp(std::nearbyint(std::ldexp(scaled, digits - exponent)), exponent - digits);
}

std::uint64_t signExtend(DataType type, std::uint64_t bits) {
  const int unused = 64 - 8 * static_cast<int>(sizeOf(type));
  if (traits(type).isSigned()) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
  }
  return (bits << unused) >> unused;
}

/// Compares two sign- or zero-extended integers.
bool less(DataType type, std::uint64_t a, std::uint64_t b) {
  return traits(type).isSigned() ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b)
                                 : a < b;
}

std::uint64_t combine(const Recipe& recipe, std::uint64_t a, std::uint64_t b) {
  switch (recipe.op.kind()) {
    case Kind::prod: return a * b;
    case Kind::min: return less(recipe.type, b, a) ? b : a;
    case Kind::max: return less(recipe.type, a, b) ? b : a;
    case Kind::band: return a & b;
    case Kind::bor: return a | b;
    case Kind::bxor: return a ^ b;
    default: return a + b;
  }
}

} // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return detail::finish(a * detail::kGoldenRatio + b * 0xd1b54a32d192ed03u);
}

double floatInput(const Recipe& recipe, int rank, std::size_t index) {
  const std::int64_t limit = exactLimit(recipe.type);
  switch (recipe.op.kind()) {
    case Kind::prod: return productInput(recipe, rank, index);
    case Kind::avg: return averageInput(recipe, rank, index);
    case Kind::premul_sum: return 2 * static_cast<double>(smallInteger(recipe, rank, index, limit));
    case Kind::min:
    case Kind::max: {
      const auto span = static_cast<std::uint64_t>(2 * limit + 1);
      const std::uint64_t bits = bitsOf(rank, index) >> 8;
      return static_cast<double>(static_cast<std::int64_t>(bits % span) - limit);
    }
    default: return static_cast<double>(smallInteger(recipe, rank, index, limit));
  }
}

std::uint64_t integerInput(const Recipe& recipe, int rank, std::size_t index) {
  const std::uint64_t bits = bitsOf(rank, index);
  const auto more = [&](std::uint64_t salt) { return mix(bits, salt); };
  std::uint64_t value = bits;
  switch (recipe.op.kind()) {
    case Kind::prod: value = bits | 1; break; // odd, so that a product that wraps is never 0
    case Kind::avg:
      value =
          static_cast<std::uint64_t>(smallInteger(recipe, rank, index, exactLimit(recipe.type)));
      break;
    case Kind::premul_sum:
      value = 2 * static_cast<std::uint64_t>(
                      smallInteger(recipe, rank, index, exactLimit(recipe.type) / 2));
      break;
    case Kind::band: value = bits | more(1) | more(2); break;
    case Kind::bor: value = bits & more(1) & more(2); break;
    default: break;
  }
  return signExtend(recipe.type, value);
}

double floatResult(const Recipe& recipe, detail::RankRange of, std::size_t index) {
  const Kind kind = recipe.op.kind();
  double result = 0;
  for (int rank = of.first; rank < of.end; ++rank) {
    double value = floatInput(recipe, rank, index);
    if (kind == Kind::avg) value = averagedContribution(recipe, value);
    if (kind == Kind::premul_sum) value *= recipe.op.factor();
    if (rank == of.first) {
      result = value;
      continue;
    }
    switch (kind) {
      case Kind::prod: result *= value; break;
      case Kind::min: result = std::min(result, value); break;
      case Kind::max: result = std::max(result, value); break;
      default: result += value; break;
    }
  }
  return result + 0.0; // makes a zero positive, as a sum of terms of both signs is
}

std::uint64_t integerResult(const Recipe& recipe, detail::RankRange of, std::size_t index) {
  const Kind kind = recipe.op.kind();
  std::uint64_t result = 0;
  for (int rank = of.first; rank < of.end; ++rank) {
    std::uint64_t value = integerInput(recipe, rank, index);
    if (kind == Kind::premul_sum) {
      value = traits(recipe.type).isSigned()
                  ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value) / 2)
                  : value / 2;
    }
    result = rank == of.first ? value : combine(recipe, result, value);
    // Narrow types wrap at every step, so that min and max compare the same values as the library.
    result = signExtend(recipe.type, result);
  }
  if (kind == Kind::avg) {
    if (traits(recipe.type).isSigned()) {
      result = static_cast<std::uint64_t>(static_cast<std::int64_t>(result) / recipe.ranks);
    } else {
      result /= static_cast<std::uint64_t>(recipe.ranks);
    }
  }
  return result;
}

} // namespace rondo::tools
