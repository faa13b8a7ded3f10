// Maps types and operators to kernels. A few kernels suffice: data that is only moved, or combined
// bit by bit, is treated as bytes; signed and unsigned types share a kernel where only low bits
// matter; an average is a scaled sum, or a sum that the program divides.
#pragma once

#include <cstddef>

#include "rondo/types.h"

namespace rondo::device {

constexpr bool isSigned(DataType type) {
  return type == DataType::int8 || type == DataType::int16 || type == DataType::int32 ||
         type == DataType::int64;
}

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
  // The unsigned type comes right after the signed one.
  if (isSigned(type) && (op == sum || op == prod))
    type = static_cast<DataType>(static_cast<int>(type) + 1);
  return {type, op, 1};
}

} // namespace rondo::device
