// Maps types and operators to kernels. A few kernels suffice: data that is only moved, or combined
// bit by bit, is treated as bytes; signed and unsigned types share a kernel where only low bits
// matter; an average is a scaled sum, or a sum that the program divides.
#pragma once

#include <cstddef>

#include "rondo/types.h"

namespace rondo::device {

/// The type and operator of the kernel that runs a program.
struct ProgramKind {
  DataType type;
  ReduceOp::Kind op;
  std::size_t per_element; ///< elements of `type` in one element of the call
};

/// `changes`: elements are combined or scaled, not only moved.
constexpr ProgramKind programKind(DataType type, ReduceOp::Kind op, bool changes) {
  using enum ReduceOp::Kind;
  if (!changes) return {DataType::uint8, bor, sizeOf(type)};
  if (op == band || op == bor || op == bxor) return {DataType::uint8, op, sizeOf(type)};
  if (op == avg) op = isFloat(type) ? premul_sum : sum;
  if (!isFloat(type) && (op == sum || op == prod)) type = *detail::integerType(false, sizeOf(type));
  return {type, op, 1};
}

} // namespace rondo::device
