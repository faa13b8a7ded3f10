// The operators on vectors: two operands in, one out. Compiled once per instruction set.
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

/// Floats: NaN if either is NaN, and -0 is less than +0, so that the result depends neither on the
/// order of the operands nor on what an instruction set does with the two.
struct Minimum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (hwy::IsFloat<hn::LaneType<V>>()) {
      // Both are the minimum, unless the operands are unordered or equal: then they are the two
      // operands. The bits of a NaN or'ed with any others are those of a NaN; -0 or'ed with +0 is
      // -0.
      const V ab = hn::IfThenElse(hn::Lt(a, b), a, b);
      const V ba = hn::IfThenElse(hn::Lt(b, a), b, a);
      return hn::Or(ab, ba);
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
