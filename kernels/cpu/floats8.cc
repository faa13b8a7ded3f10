// Reductions and scaling of the 8-bit floats, in fp32.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/floats8.cc"
#include "hwy/foreach_target.h" // compiles the part up to HWY_ONCE for each instruction set
//
#include "kernels/cpu/float_table-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

ReduceFunction reduction(DataType type, ReduceOp::Kind op) {
  return smallFloatOperator<1>(type, op);
}

ScaleFunction scaling(DataType type) { return smallFloatScale<1>(type); }

} // namespace
} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {
HWY_EXPORT(reduction);
HWY_EXPORT(scaling);

ReduceFunction float8Reduction(DataType type, ReduceOp::Kind op) {
  return HWY_DYNAMIC_DISPATCH(reduction)(type, op);
}

ScaleFunction float8Scale(DataType type) { return HWY_DYNAMIC_DISPATCH(scaling)(type); }

} // namespace rondo::kernels
#endif
