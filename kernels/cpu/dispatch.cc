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
  ReduceFunction function = nullptr;
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
    case DataType::int16:
    case DataType::uint16: function = narrowIntegerReduction(type, op); break;
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
    case DataType::uint64: function = wideIntegerReduction(type, op); break;
    case DataType::float16:
    case DataType::bfloat16: function = halfReduction(type, op); break;
    case DataType::float8e4m3:
    case DataType::float8e5m2: function = float8Reduction(type, op); break;
    case DataType::float32:
    case DataType::float64: function = floatReduction(type, op); break;
  }
  assert(function != nullptr && "operator is not defined on the element type");
  return function;
}

ScaleFunction scaleFunction(DataType type) {
  switch (type) {
    case DataType::float16:
    case DataType::bfloat16: return halfScale(type);
    case DataType::float8e4m3:
    case DataType::float8e5m2: return float8Scale(type);
    case DataType::float32:
    case DataType::float64: return floatScale(type);
    default: return integerScale(type);
  }
}

} // namespace rondo::kernels
#endif
