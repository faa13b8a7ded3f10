// Reductions of 32- and 64-bit integers.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/integers_wide.cc"
#include "hwy/foreach_target.h" // compiles the part up to HWY_ONCE for each instruction set
//
#include "kernels/cpu/integer_table-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

ReduceFunction reduction(DataType type, ReduceOp::Kind op) {
  switch (type) {
    case DataType::int32: return integerOperator<std::int32_t>(op);
    case DataType::uint32: return integerOperator<std::uint32_t>(op);
    case DataType::int64: return integerOperator<std::int64_t>(op);
    case DataType::uint64: return integerOperator<std::uint64_t>(op);
    default: return nullptr;
  }
}

} // namespace
} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {
HWY_EXPORT(reduction);

ReduceFunction wideIntegerReduction(DataType type, ReduceOp::Kind op) {
  return HWY_DYNAMIC_DISPATCH(reduction)(type, op);
}

} // namespace rondo::kernels
#endif
