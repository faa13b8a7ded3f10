// Maps operators to the kernels of a float format. Compiled once for each instruction set.
#if defined(RONDO_KERNELS_CPU_FLOAT_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_FLOAT_TABLE_INL_H_
#undef RONDO_KERNELS_CPU_FLOAT_TABLE_INL_H_
#else
#define RONDO_KERNELS_CPU_FLOAT_TABLE_INL_H_
#endif

#include "kernels/cpu/formats-inl.h"
#include "kernels/cpu/operators-inl.h"
#include "kernels/cpu/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

template <class Format>
ReduceFunction floatOperator(ReduceOp::Kind op) {
  switch (op) {
    case ReduceOp::Kind::sum:
    case ReduceOp::Kind::avg:
    case ReduceOp::Kind::premul_sum: return reduce<Format, Sum>;
    case ReduceOp::Kind::prod: return reduce<Format, Product>;
    case ReduceOp::Kind::min: return reduce<Format, Minimum>;
    case ReduceOp::Kind::max: return reduce<Format, Maximum>;
    case ReduceOp::Kind::band:
    case ReduceOp::Kind::bor:
    case ReduceOp::Kind::bxor: break;
  }
  return nullptr;
}

/// The functions of a float with 8 * kBytes bits, which are 8 or 16.
template <std::size_t kBytes>
ReduceFunction smallFloatOperator(DataType type, ReduceOp::Kind op) {
  return detail::withFloat<kBytes, ReduceFunction>(type, [op](auto constant) {
    return floatOperator<typename SmallFloatOf<decltype(constant)::value>::type>(op);
  });
}
template <std::size_t kBytes>
ScaleFunction smallFloatScale(DataType type) {
  return detail::withFloat<kBytes, ScaleFunction>(type, [](auto constant) -> ScaleFunction {
    return scale<typename SmallFloatOf<decltype(constant)::value>::type>;
  });
}

} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
