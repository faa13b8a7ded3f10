// Maps operators to the kernels of an integer type. Compiled once for each instruction set.
#if defined(RONDO_KERNELS_CPU_INTEGER_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_INTEGER_TABLE_INL_H_
#undef RONDO_KERNELS_CPU_INTEGER_TABLE_INL_H_
#else
#define RONDO_KERNELS_CPU_INTEGER_TABLE_INL_H_
#endif

#include <type_traits>

#include "kernels/cpu/formats-inl.h"
#include "kernels/cpu/operators-inl.h"
#include "kernels/cpu/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

/// Signed and unsigned types differ only in minimum and maximum. All other operators use the
/// unsigned type, which gives the same bits in two's complement and makes wrapping defined
/// behaviour.
template <typename T>
ReduceFunction integerOperator(ReduceOp::Kind op) {
  using Unsigned = std::make_unsigned_t<T>;
  using Multiplied = std::conditional_t<sizeof(T) == 1, ByteInWord, Plain<Unsigned>>;
  switch (op) {
    case ReduceOp::Kind::sum:
    case ReduceOp::Kind::avg:
    case ReduceOp::Kind::premul_sum: return reduce<Plain<Unsigned>, Sum>;
    case ReduceOp::Kind::prod: return reduce<Multiplied, Product>;
    case ReduceOp::Kind::min: return reduce<Plain<T>, Minimum>;
    case ReduceOp::Kind::max: return reduce<Plain<T>, Maximum>;
    case ReduceOp::Kind::band: return reduce<Plain<Unsigned>, BitAnd>;
    case ReduceOp::Kind::bor: return reduce<Plain<Unsigned>, BitOr>;
    case ReduceOp::Kind::bxor: return reduce<Plain<Unsigned>, BitXor>;
  }
  return nullptr;
}

} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
