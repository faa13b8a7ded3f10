// Proves that the benchmark's results can be predicted exactly: for every data type, operator and
// rank count, reductions in many orders, rounded to the type after every step, give the expected
// bits. The arithmetic here is independent of the one in tools/.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "support/test.h"
#include "tools/bench/data.h"
#include "tools/bench/values.h"
#include "tools/elements.h"

namespace rondo::test {
namespace {

using namespace tools;

/// Decodes the bits of a finite float field by field.
double decode(DataType type, std::uint64_t bits) {
  const auto [exponent_bits, mantissa_bits, infinity] = traits(type).format;
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << mantissa_bits) - 1);
  const auto exponent =
      static_cast<int>((bits >> mantissa_bits) & ((std::uint64_t{1} << exponent_bits) - 1));
  const bool negative = ((bits >> (exponent_bits + mantissa_bits)) & 1) != 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double units = static_cast<double>(
      exponent == 0 ? mantissa : mantissa | (std::uint64_t{1} << mantissa_bits));
  const double value = std::ldexp(units, std::max(exponent, 1) - bias - mantissa_bits);
  return negative ? -value : value;
}

/// The nearest value of the type; of two equally near values the one whose last bit is 0.
double nearest(DataType type, double value) {
  if (type == DataType::float64) return value;
  if (type == DataType::float32) return static_cast<float>(value);
  const auto [exponent_bits, mantissa_bits, infinity] = traits(type).format;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int lowest = 2 - (1 << (exponent_bits - 1));
  const double unit = std::ldexp(1.0, std::max(exponent - 1, lowest) - mantissa_bits);
  const double below = std::floor(value / unit) * unit;
  const double above = below + unit;
  if (value - below != above - value) return value - below < above - value ? below : above;
  return std::fmod(std::fabs(below / unit), 2) == 0 ? below : above; // a tie: the even one
}

/// The bits of a value that the type can represent. Found by bisection: values of one sign ascend
/// with their bits.
std::uint64_t encode(DataType type, double value) {
  const std::uint64_t sign = std::uint64_t{1} << (8 * sizeOf(type) - 1);
  std::uint64_t low = 0, high = sign - 1;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (decode(type, middle) < std::fabs(value)) low = middle + 1;
    else high = middle;
  }
  return std::signbit(value) ? low | sign : low;
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::uint64_t bitsAt(const std::vector<std::byte>& data, DataType type, std::size_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data.data() + index * sizeOf(type), sizeOf(type));
  return bits;
}

double floatStep(ReduceOp op, DataType type, double a, double b) {
  switch (op.kind()) {
    case ReduceOp::Kind::prod: return nearest(type, a * b);
    case ReduceOp::Kind::min: return b < a ? b : a;
    case ReduceOp::Kind::max: return a < b ? b : a;
    default: return nearest(type, a + b);
  }
}

/// `wide`: the factor is applied in double precision, else in single; libraries differ in that.
double scaled(ReduceOp op, DataType type, double value, int ranks, bool wide) {
  double factor = 1;
  if (op.kind() == ReduceOp::Kind::avg) factor = 1.0 / ranks;
  if (op.kind() == ReduceOp::Kind::premul_sum) factor = op.factor();
  if (wide || type == DataType::float64) return nearest(type, value * factor);
  return nearest(type, static_cast<float>(value) * static_cast<float>(factor));
}

template <class T>
T integerStep(ReduceOp op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  const auto ua = static_cast<std::uint64_t>(static_cast<U>(a));
  const auto ub = static_cast<std::uint64_t>(static_cast<U>(b));
  switch (op.kind()) {
    case ReduceOp::Kind::prod: return static_cast<T>(ua * ub);
    case ReduceOp::Kind::min: return std::min(a, b);
    case ReduceOp::Kind::max: return std::max(a, b);
    case ReduceOp::Kind::band: return static_cast<T>(ua & ub);
    case ReduceOp::Kind::bor: return static_cast<T>(ua | ub);
    case ReduceOp::Kind::bxor: return static_cast<T>(ua ^ ub);
    default: return static_cast<T>(ua + ub);
  }
}

/// Reduces the values in the given order, from left to right or pairwise.
template <class T, class F>
T fold(std::vector<T> values, bool pairwise, F step) {
  if (!pairwise) {
    T result = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) result = step(result, values[i]);
    return result;
  }
  while (values.size() > 1) {
    std::vector<T> next;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
      next.push_back(step(values[i], values[i + 1]));
    }
    if (values.size() % 2 != 0) next.push_back(values.back());
    values = next;
  }
  return values[0];
}

template <class T>
std::uint64_t integerReduction(ReduceOp op, const std::vector<std::vector<std::byte>>& inputs,
                               std::size_t index, const std::vector<int>& order, bool pairwise) {
  std::vector<T> values;
  for (const int rank : order) {
    T value = load<T>(inputs[static_cast<std::size_t>(rank)].data() + index * sizeof(T));
    if (op.kind() == ReduceOp::Kind::premul_sum) value = static_cast<T>(value / 2);
    values.push_back(value);
  }
  T result = fold(values, pairwise, [&](T a, T b) { return integerStep(op, a, b); });
  if (op.kind() == ReduceOp::Kind::avg) {
    result = static_cast<T>(result / static_cast<T>(order.size()));
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, &result, sizeof result);
  return bits;
}

std::uint64_t integerReduction(DataType type, ReduceOp op,
                               const std::vector<std::vector<std::byte>>& inputs, std::size_t index,
                               const std::vector<int>& order, bool pairwise) {
  switch (type) {
    case DataType::int8: return integerReduction<std::int8_t>(op, inputs, index, order, pairwise);
    case DataType::uint8: return integerReduction<std::uint8_t>(op, inputs, index, order, pairwise);
    case DataType::int16: return integerReduction<std::int16_t>(op, inputs, index, order, pairwise);
    case DataType::uint16:
      return integerReduction<std::uint16_t>(op, inputs, index, order, pairwise);
    case DataType::int32: return integerReduction<std::int32_t>(op, inputs, index, order, pairwise);
    case DataType::uint32:
      return integerReduction<std::uint32_t>(op, inputs, index, order, pairwise);
    case DataType::int64: return integerReduction<std::int64_t>(op, inputs, index, order, pairwise);
    default: return integerReduction<std::uint64_t>(op, inputs, index, order, pairwise);
  }
}

std::uint64_t inputBits(const Recipe& recipe, int rank, std::size_t index) {
  return isFloat(recipe.type) ? encodeFloat(recipe.type, floatInput(recipe, rank, index))
                              : integerInput(recipe, rank, index);
}

std::uint64_t resultBits(const Recipe& recipe, detail::RankRange of, std::size_t index) {
  return isFloat(recipe.type) ? encodeFloat(recipe.type, floatResult(recipe, of, index))
                              : integerResult(recipe, of, index);
}
std::uint64_t resultBits(const Recipe& recipe, std::size_t index) {
  return resultBits(recipe, {0, recipe.ranks}, index);
}

/// Whether the low bytes, as many as an element has, are equal.
bool same(DataType type, std::uint64_t a, std::uint64_t b) {
  return std::memcmp(&a, &b, sizeOf(type)) == 0;
}

/// Whether every order of reducing element `index` gives the recipe's result.
bool predicted(const Recipe& recipe, std::size_t index,
               const std::vector<std::vector<std::byte>>& inputs, std::vector<int> order,
               std::mt19937& random) {
  const DataType type = recipe.type;
  const ReduceOp op = recipe.op;
  const std::uint64_t wanted = resultBits(recipe, index);
  const auto ranks = static_cast<int>(order.size());
  for (int trial = 0; trial < 6; ++trial) {
    if (trial == 1) std::reverse(order.begin(), order.end());
    if (trial > 1) std::shuffle(order.begin(), order.end(), random);
    const bool pairwise = trial % 2 != 0;
    if (!isFloat(type)) {
      const std::uint64_t bits = integerReduction(type, op, inputs, index, order, pairwise);
      if (!same(type, bits, wanted)) return false;
      continue;
    }
    std::vector<double> values;
    for (const int rank : order) {
      const std::uint64_t bits = bitsAt(inputs[static_cast<std::size_t>(rank)], type, index);
      values.push_back(scaled(op, type, decode(type, bits), ranks, trial % 3 == 0));
    }
    const double result =
        fold(values, pairwise, [&](double a, double b) { return floatStep(op, type, a, b); });
    const std::uint64_t bits = encode(type, result);
    if (decode(type, bits) != result) return false;
    if (!same(type, bits, wanted)) return false;
  }
  return true;
}

void prove(int ranks, std::size_t elements) {
  std::mt19937 random(static_cast<unsigned>(ranks));
  for (const DataType type : kDataTypes) {
    for (const ReduceOp op : kReduceOps) {
      if (!op.supports(type)) continue;
      const Recipe recipe{type, op, ranks};
      std::vector<std::vector<std::byte>> inputs;
      std::vector<int> order;
      for (int rank = 0; rank < ranks; ++rank) {
        inputs.emplace_back(elements * sizeOf(type));
        for (std::size_t i = 0; i < elements; ++i) {
          storeElement(type, inputs.back().data() + i * sizeOf(type), inputBits(recipe, rank, i));
        }
        order.push_back(rank);
      }
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < elements; ++i) {
        if (!predicted(recipe, i, inputs, order, random)) ++wrong;
      }
      INFO("type " << name(type) << ", op " << name(op) << ", ranks " << ranks);
      REQUIRE(wrong == 0);
    }
  }
}

TEST_CASE("Every reduction of the inputs is exact in any order, 1 to 8 ranks", "[values]") {
  for (int ranks = 1; ranks <= 8; ++ranks) prove(ranks, 400);
}

TEST_CASE("Every reduction of the inputs is exact in any order, many ranks", "[values]") {
  for (const int ranks : {9, 12, 13, 16, 17, 31, 64, 100, 128}) prove(ranks, 100);
}

TEST_CASE("Buffers contain these inputs and results, from any first element", "[values]") {
  for (const DataType type : kDataTypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      const Recipe recipe{type, op, 3};
      const Pattern pattern(type, op, 3);
      const std::size_t size = sizeOf(type), count = 50;
      std::vector<std::byte> input(count * size), result(count * size);
      for (const std::size_t first : {std::size_t{0}, std::size_t{1}, Pattern::kPeriod - 20,
                                      3 * Pattern::kPeriod, std::size_t{123456}}) {
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t index = (first + i) % Pattern::kPeriod;
          storeElement(type, input.data() + i * size, inputBits(recipe, 2, index));
          storeElement(type, result.data() + i * size, resultBits(recipe, index));
        }
        INFO(name(type) << " from " << first);
        CHECK(pattern.differsFromInput(input.data(), 2, first, count) == 0);
        CHECK(pattern.differsFromReduction(result.data(), {0, 3}, first, count) == 0);
        std::vector<std::byte> filled(count * size);
        pattern.fill(filled.data(), 2, first, count);
        CHECK(filled == input);
      }
    }
  }
}

TEST_CASE("Inputs differ between ranks and positions, and results are not trivial", "[values]") {
  for (const DataType type : kDataTypes) {
    for (const ReduceOp op : kReduceOps) {
      if (!op.supports(type)) continue;
      for (const int ranks : {2, 3, 5, 8}) {
        INFO("type " << name(type) << ", op " << name(op) << ", ranks " << ranks);
        const Pattern pattern(type, op, ranks);
        const std::size_t count = 2000;
        std::vector<std::byte> data(count * sizeOf(type));
        for (int rank = 0; rank < ranks; ++rank) {
          pattern.fill(data.data(), rank, 0, count);
          CHECK(pattern.differsFromInput(data.data(), rank, 0, count) == 0);
          CHECK(pattern.differsFromInput(data.data(), (rank + 1) % ranks, 0, count) > count / 10);
          for (const std::size_t shift : {1, 2, 3, 64, 512, 1024}) {
            CHECK(pattern.differsFromInput(data.data(), rank, shift, count) > count / 10);
          }
          // A rank that is left out or counted twice must change the result: no input equals it.
          CHECK(pattern.differsFromReduction(data.data(), {0, ranks}, 0, count) > count / 20);
        }
      }
    }
  }
}

TEST_CASE("Without a reduction a change of any byte is found", "[values]") {
  for (const DataType type : kDataTypes) {
    const Pattern pattern(type, 3);
    const std::size_t count = 3 * Pattern::kPeriod / 2; // wraps
    std::vector<std::byte> data(count * sizeOf(type));
    pattern.fill(data.data(), 1, 12345, count);
    CHECK(pattern.differsFromInput(data.data(), 1, 12345, count) == 0);
    CHECK(pattern.differsFromInput(data.data(), 2, 12345, count) > count * 9 / 10);
    for (std::size_t at = 0; at < data.size(); at += 997) {
      data[at] ^= std::byte{1};
      CHECK(pattern.differsFromInput(data.data(), 1, 12345, count) == 1);
      data[at] ^= std::byte{1};
    }
  }
}

} // namespace
} // namespace rondo::test
