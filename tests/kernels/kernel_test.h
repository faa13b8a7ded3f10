// Common parts of the kernel tests: all instruction sets of the machine, element access, input
// data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/targets.h" // before Highway

#include "hwy/highway.h"

#include "kernels/reduce.h"
#include "rondo/types.h"
#include "support/grid.h"
#include "support/test.h"
#include "tests/kernels/reference.h"

namespace rondo::test {

/// Calls body(name) once for each instruction set that was compiled and that this machine has,
/// while the kernels use it.
template <typename Body>
void forEachInstructionSet(Body body) {
  struct Restore {
    ~Restore() {
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
    }
  } restore;
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    REQUIRE(kernels::instructionSet() == hwy::TargetName(target));
    body(std::string(kernels::instructionSet()));
  }
}

inline std::uint64_t element(const std::byte* data, std::size_t i, DataType type) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data + i * sizeOf(type), sizeOf(type)); // little endian
  return bits;
}

inline void setElement(std::byte* data, std::size_t i, DataType type, std::uint64_t bits) {
  std::memcpy(data + i * sizeOf(type), &bits, sizeOf(type));
}

/// Elements of all kinds: random bits, and for floats also numbers of similar size (whose sums and
/// products do not overflow), zeros of both signs, infinities, NaN, subnormals, the largest number.
class Inputs {
 public:
  explicit Inputs(DataType type, unsigned seed = 1) : type_(type), random_(seed) {}

  std::uint64_t next() {
    const std::size_t shift = 64 - 8 * sizeOf(type_);
    const std::uint64_t any = random_() >> shift;
    const auto roll = random_() % 16;
    const std::uint64_t sign = (any & 1) << (63 - shift);
    if (!isFloat(type_)) return roll == 0 ? (std::uint64_t{1} << (63 - shift)) - (any & 1) : any;
    if (roll == 0) return sign;
    if (roll == 1) return any;
    if (roll == 2 && any % 4 == 0) return any % 3 == 0 ? infinity() | sign : any | infinity();
    if (roll == 3) return any % 5 | sign;
    return near(any);
  }

  std::vector<std::byte> bytes(std::size_t count) {
    std::vector<std::byte> data(count * sizeOf(type_));
    for (std::size_t i = 0; i < count; ++i) setElement(data.data(), i, type_, next());
    return data;
  }

 private:
  std::uint64_t infinity() const {
    if (type_ == DataType::float64) return std::uint64_t{0x7ff} << 52;
    if (type_ == DataType::float32) return 0x7f800000;
    return smallFormat(type_).infinityCode();
  }
  /// Magnitude in [1/8, 8), full mantissa.
  std::uint64_t near(std::uint64_t any) {
    const double unit = 1 + static_cast<double>(random_() >> 12) * 0x1p-52;
    const double value = std::ldexp(any & 1 ? -unit : unit, static_cast<int>(any >> 1 & 7) % 6 - 3);
    return elementOf(type_, value);
  }

  DataType type_;
  std::mt19937_64 random_;
};

/// A description for failed checks. It uses numbers, because the names of types belong to another
/// room.
inline std::string describe(DataType type, ReduceOp::Kind op) {
  return "type " + std::to_string(static_cast<int>(type)) + ", op " +
         std::to_string(static_cast<int>(op));
}

/// The operators that are defined on a type and have a function of their own.
inline std::vector<ReduceOp::Kind> distinctOperators(DataType type) {
  std::vector<ReduceOp::Kind> kinds;
  for (ReduceOp op : kReduceOps)
    if (op.supports(type) && op.kind() != ReduceOp::Kind::avg &&
        op.kind() != ReduceOp::Kind::premul_sum)
      kinds.push_back(op.kind());
  return kinds;
}

/// First element in which `got` differs from `expected`, or count.
inline std::size_t firstDifference(DataType type, const std::byte* got, const std::byte* expected,
                                   std::size_t count) {
  if (count == 0 || std::memcmp(got, expected, count * sizeOf(type)) == 0) return count;
  std::size_t i = 0;
  while (i < count && sameElement(type, element(got, i, type), element(expected, i, type))) ++i;
  return i;
}

} // namespace rondo::test
