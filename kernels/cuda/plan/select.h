// Maps the type and operator of a program to the instance of the plan kernel that runs it.
#pragma once

#include <type_traits>

#include "device/program_kind.h"
#include "device/window.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// Calls make(operator) with the operator as an integral constant. Null for operators that
/// device::programKind() never combines with the type.
template <DataType kType, class Make>
auto selectOperator(ReduceOp::Kind op, const Make& make) {
  using enum ReduceOp::Kind;
  using Made = decltype(make(std::integral_constant<ReduceOp::Kind, min>()));
  if constexpr (kType == DataType::uint8) {
    if (op == band) return make(std::integral_constant<ReduceOp::Kind, band>());
    if (op == bor) return make(std::integral_constant<ReduceOp::Kind, bor>());
    if (op == bxor) return make(std::integral_constant<ReduceOp::Kind, bxor>());
  }
  if constexpr (!traits(kType).isSignedInteger()) {
    if (op == sum) return make(std::integral_constant<ReduceOp::Kind, sum>());
    if (op == prod) return make(std::integral_constant<ReduceOp::Kind, prod>());
  }
  if (op == min) return make(std::integral_constant<ReduceOp::Kind, min>());
  if (op == max) return make(std::integral_constant<ReduceOp::Kind, max>());
  if (op == premul_sum) return make(std::integral_constant<ReduceOp::Kind, premul_sum>());
  return Made(nullptr);
}

/// Calls make(type, operator) with both as integral constants, for programs with barriers: the
/// types and operators that the switch reduces, and bytes that are only moved. Null for all others.
template <class Make>
auto selectSwitched(DataType type, ReduceOp::Kind op, const Make& make) {
  using Bytes = std::integral_constant<DataType, DataType::uint8>;
  using Bits = std::integral_constant<ReduceOp::Kind, ReduceOp::Kind::bor>;
  using Made = decltype(make(Bytes(), Bits()));
  const auto of = [&]<DataType kType>(std::integral_constant<DataType, kType> one) {
    return selectOperator<kType>(op, [&](auto by) {
      if constexpr (device::switchReduces(kType, decltype(by)::value)) return make(one, by);
      else return Made(nullptr);
    });
  };
  switch (type) {
    case DataType::uint8: return op == ReduceOp::Kind::bor ? make(Bytes(), Bits()) : Made(nullptr);
    case DataType::int32: return of(std::integral_constant<DataType, DataType::int32>());
    case DataType::uint32: return of(std::integral_constant<DataType, DataType::uint32>());
    case DataType::int64: return of(std::integral_constant<DataType, DataType::int64>());
    case DataType::uint64: return of(std::integral_constant<DataType, DataType::uint64>());
    case DataType::float16: return of(std::integral_constant<DataType, DataType::float16>());
    case DataType::bfloat16: return of(std::integral_constant<DataType, DataType::bfloat16>());
    case DataType::float32: return of(std::integral_constant<DataType, DataType::float32>());
    case DataType::float64: return of(std::integral_constant<DataType, DataType::float64>());
    default: return Made(nullptr);
  }
}

} // namespace rondo::kernels::cuda
