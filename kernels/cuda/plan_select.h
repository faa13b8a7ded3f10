// From the type and operator that a program's header names to the instance that serves it.
#pragma once

#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// make<kType, kOp>() for the operators that programs name: all but the average, which is a
/// pre-multiplied sum, or a sum that the program divides (see engine::flatten()).
template <DataType kType, class Make>
auto selectOperator(ReduceOp::Kind op, const Make& make) {
  using enum ReduceOp::Kind;
  if constexpr (!isFloat(kType)) {
    if (op == band) return make.template operator()<kType, band>();
    if (op == bor) return make.template operator()<kType, bor>();
    if (op == bxor) return make.template operator()<kType, bxor>();
  }
  if (op == prod) return make.template operator()<kType, prod>();
  if (op == min) return make.template operator()<kType, min>();
  if (op == max) return make.template operator()<kType, max>();
  if (op == premul_sum) return make.template operator()<kType, premul_sum>();
  return make.template operator()<kType, sum>();
}

} // namespace rondo::kernels::cuda
