// From the type and operator that a program's header names to the instance that serves it.
#pragma once

#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// make<kType, kOp>() for the operators that programs name, see engine::flatten(). Average and
/// pre-multiplied sum are sums here.
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
  return make.template operator()<kType, sum>();
}

} // namespace rondo::kernels::cuda
