// Reductions of 8- and 16-bit integers.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/integers_narrow.cc"
#include "hwy/foreach_target.h" // compiles the part up to HWY_ONCE for each instruction set
//
#include "kernels/cpu/integer_table-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

ReduceFunction reduction(DataType type, ReduceOp::Kind op) {
  switch (type) {
    case DataType::int8: return integerOperator<std::int8_t>(op);
    case DataType::uint8: return integerOperator<std::uint8_t>(op);
    case DataType::int16: return integerOperator<std::int16_t>(op);
    case DataType::uint16: return integerOperator<std::uint16_t>(op);
    default: return nullptr;
  }
}

} // namespace
} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {
HWY_EXPORT(reduction);

ReduceFunction narrowIntegerReduction(DataType type, ReduceOp::Kind op) {
  return HWY_DYNAMIC_DISPATCH(reduction)(type, op);
}

} // namespace rondo::kernels
#endif
