// From type and operator of a program to the instance of the plan kernel that serves it.
#pragma once

#include <type_traits>

#include "device/program_kind.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// make(operator) with the operator as an integral constant, or null for those that
/// device::programKind() never gives with the type.
template <DataType kType, class Make>
auto selectOperator(ReduceOp::Kind op, const Make& make) {
  using enum ReduceOp::Kind;
  using Made = decltype(make(std::integral_constant<ReduceOp::Kind, min>()));
  if constexpr (kType == DataType::uint8) {
    if (op == band) return make(std::integral_constant<ReduceOp::Kind, band>());
    if (op == bor) return make(std::integral_constant<ReduceOp::Kind, bor>());
    if (op == bxor) return make(std::integral_constant<ReduceOp::Kind, bxor>());
  }
  if constexpr (!device::isSigned(kType)) {
    if (op == sum) return make(std::integral_constant<ReduceOp::Kind, sum>());
    if (op == prod) return make(std::integral_constant<ReduceOp::Kind, prod>());
  }
  if (op == min) return make(std::integral_constant<ReduceOp::Kind, min>());
  if (op == max) return make(std::integral_constant<ReduceOp::Kind, max>());
  if (op == premul_sum) return make(std::integral_constant<ReduceOp::Kind, premul_sum>());
  return Made(nullptr);
}

} // namespace rondo::kernels::cuda
