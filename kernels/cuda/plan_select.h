// Which kernel serves a program, and from type and operator to that instance. Few kernels do for
// all: bits that are only moved, or combined bit by bit, are bytes; signed and unsigned are the
// same where only low bits matter; an average is a scaled sum, or one that the program divides.
#pragma once

#include <cstddef>
#include <type_traits>

#include "rondo/types.h"

namespace rondo::kernels::cuda {

constexpr bool isSigned(DataType type) {
  return type == DataType::int8 || type == DataType::int16 || type == DataType::int32 ||
         type == DataType::int64;
}

/// What a program computes with.
struct PlanKind {
  DataType type;
  ReduceOp::Kind op;
  std::size_t per_element; ///< elements of `type` in one of the call
};

/// `changes`: elements are combined or scaled, not just moved.
constexpr PlanKind planKind(DataType type, ReduceOp::Kind op, bool changes) {
  using enum ReduceOp::Kind;
  if (!changes) return {DataType::uint8, bor, sizeOf(type)};
  if (op == band || op == bor || op == bxor) return {DataType::uint8, op, sizeOf(type)};
  if (op == avg) op = isFloat(type) ? premul_sum : sum;
  // An integer type's unsigned twin follows it.
  if (isSigned(type) && (op == sum || op == prod))
    type = static_cast<DataType>(static_cast<int>(type) + 1);
  return {type, op, 1};
}

/// make(operator) with the operator as an integral constant, or null for those that planKind()
/// never gives with the type.
template <DataType kType, class Make>
auto selectOperator(ReduceOp::Kind op, const Make& make) {
  using enum ReduceOp::Kind;
  using Made = decltype(make(std::integral_constant<ReduceOp::Kind, min>()));
  if constexpr (kType == DataType::uint8) {
    if (op == band) return make(std::integral_constant<ReduceOp::Kind, band>());
    if (op == bor) return make(std::integral_constant<ReduceOp::Kind, bor>());
    if (op == bxor) return make(std::integral_constant<ReduceOp::Kind, bxor>());
  }
  if constexpr (!isSigned(kType)) {
    if (op == sum) return make(std::integral_constant<ReduceOp::Kind, sum>());
    if (op == prod) return make(std::integral_constant<ReduceOp::Kind, prod>());
  }
  if (op == min) return make(std::integral_constant<ReduceOp::Kind, min>());
  if (op == max) return make(std::integral_constant<ReduceOp::Kind, max>());
  if (op == premul_sum) return make(std::integral_constant<ReduceOp::Kind, premul_sum>());
  return Made(nullptr);
}

} // namespace rondo::kernels::cuda
