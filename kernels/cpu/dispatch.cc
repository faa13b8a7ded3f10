// Selects the family of kernels for an element type. The families select the instruction set.
#include <cassert>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dispatch.cc"
#include "hwy/foreach_target.h" // compiles the part up to HWY_ONCE for each instruction set
//
#include "hwy/highway.h"
#include "kernels/cpu/families.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

const char* targetName() { return hwy::TargetName(HWY_TARGET); }

} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {
HWY_EXPORT(targetName);

std::string_view instructionSet() { return HWY_DYNAMIC_DISPATCH(targetName)(); }

ReduceFunction reduceFunction(DataType type, ReduceOp::Kind op) {
  const auto family = [type] {
    if (!isFloat(type)) return sizeOf(type) <= 2 ? narrowIntegerReduction : wideIntegerReduction;
    if (sizeOf(type) == 1) return float8Reduction;
    return sizeOf(type) == 2 ? halfReduction : floatReduction;
  }();
  const ReduceFunction function = family(type, op);
  assert(function != nullptr && "operator is not defined on the element type");
  return function;
}

ScaleFunction scaleFunction(DataType type) {
  if (!isFloat(type)) return integerScale(type);
  if (sizeOf(type) == 1) return float8Scale(type);
  return sizeOf(type) == 2 ? halfScale(type) : floatScale(type);
}

} // namespace rondo::kernels
#endif
