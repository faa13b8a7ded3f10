// The reduction operators on vectors: two operands, one result. Compiled once for each instruction
// set.
#if defined(RONDO_KERNELS_CPU_OPERATORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_OPERATORS_INL_H_
#undef RONDO_KERNELS_CPU_OPERATORS_INL_H_
#else
#define RONDO_KERNELS_CPU_OPERATORS_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

struct Product {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};

struct BitAnd {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::And(a, b);
  }
};

struct BitOr {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Or(a, b);
  }
};

struct BitXor {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Xor(a, b);
  }
};

/// Floats: if one operand is NaN, the result is the other one; -0 is less than +0. So the result
/// does not depend on the order of the operands or on the instruction set.
struct Minimum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (hwy::IsFloat<hn::LaneType<V>>()) {
      const V x = hn::IfThenElse(hn::IsNaN(a), b, a);
      const V y = hn::IfThenElse(hn::IsNaN(b), a, b);
      // Both are the minimum, unless the operands are equal or both NaN: then they are the two
      // operands. Or'ing -0 and +0 gives -0; or'ing two NaNs gives a NaN.
      const V xy = hn::IfThenElse(hn::Lt(x, y), x, y);
      const V yx = hn::IfThenElse(hn::Lt(y, x), y, x);
      return hn::Or(xy, yx);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Maximum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (hwy::IsFloat<hn::LaneType<V>>()) {
      return hn::Neg(Minimum()(hn::Neg(a), hn::Neg(b)));
    } else {
      return hn::Max(a, b);
    }
  }
};

} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
