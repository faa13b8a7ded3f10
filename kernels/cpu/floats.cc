// Reductions and scaling of fp32 and fp64.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/floats.cc"
#include "hwy/foreach_target.h" // compiles the part up to HWY_ONCE for each instruction set
//
#include "kernels/cpu/float_table-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

ReduceFunction reduction(DataType type, ReduceOp::Kind op) {
  return type == DataType::float32 ? floatOperator<Plain<float>>(op)
                                   : floatOperator<Plain<double>>(op);
}

ScaleFunction scaling(DataType type) {
  return type == DataType::float32 ? scale<Plain<float>> : scale<Plain<double>>;
}

} // namespace
} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {
HWY_EXPORT(reduction);
HWY_EXPORT(scaling);

ReduceFunction floatReduction(DataType type, ReduceOp::Kind op) {
  return HWY_DYNAMIC_DISPATCH(reduction)(type, op);
}

ScaleFunction floatScale(DataType type) { return HWY_DYNAMIC_DISPATCH(scaling)(type); }

} // namespace rondo::kernels
#endif
