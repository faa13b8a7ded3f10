// The reduction operators on values, on the device and on the host: two operands, one result. The
// bits are the same as those of the CPU's operators (kernels/cpu/operators-inl.h), except for NaN
// payloads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/compile.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// Operator<kind>()(a, b). avg and premul_sum only add; scaling.h scales and divides.
template <ReduceOp::Kind kKind>
struct Operator;

/// Integers wrap. They are computed as unsigned, for which wrapping is defined.
template <typename V>
using Wrapping = typename std::conditional_t<std::is_floating_point_v<V>, std::type_identity<V>,
                                             std::make_unsigned<V>>::type;

struct Sum {
  template <typename V>
  RONDO_HOST_DEVICE V operator()(V a, V b) const {
    using W = Wrapping<V>;
    return static_cast<V>(static_cast<W>(a) + static_cast<W>(b));
  }
};

template <>
struct Operator<ReduceOp::Kind::sum> : Sum {};
template <>
struct Operator<ReduceOp::Kind::avg> : Sum {};
template <>
struct Operator<ReduceOp::Kind::premul_sum> : Sum {};

template <>
struct Operator<ReduceOp::Kind::prod> {
  template <typename V>
  RONDO_HOST_DEVICE V operator()(V a, V b) const {
    using W = Wrapping<V>;
    return static_cast<V>(static_cast<W>(a) * static_cast<W>(b));
  }
};

/// The GPU's minimum also orders the zeros, and returns the other operand if one is NaN.
RONDO_HOST_DEVICE float deviceMinimum([[maybe_unused]] float a, [[maybe_unused]] float b) {
  float result = 0;
#if RONDO_DEVICE_PASS
  asm("min.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
#endif
  return result;
}

/// Floats: if one operand is NaN, the result is the other one; -0 is less than +0. So the result
/// does not depend on the order of the operands.
template <>
struct Operator<ReduceOp::Kind::min> {
  template <typename V>
  RONDO_HOST_DEVICE V operator()(V a, V b) const {
    if constexpr (std::is_same_v<V, float> && RONDO_DEVICE_PASS) {
      return deviceMinimum(a, b);
    } else if constexpr (std::is_floating_point_v<V>) {
      using Bits = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
      const V x = a != a ? b : a;
      const V y = b != b ? a : b;
      // Both are the minimum, unless the operands are equal or both NaN: then they are the two
      // operands. Or'ing -0 and +0 gives -0; or'ing two NaNs gives a NaN.
      const V xy = x < y ? x : y;
      const V yx = y < x ? y : x;
      return bitCast<V>(bitCast<Bits>(xy) | bitCast<Bits>(yx));
    } else {
      return a < b ? a : b;
    }
  }
};

template <>
struct Operator<ReduceOp::Kind::max> {
  template <typename V>
  RONDO_HOST_DEVICE V operator()(V a, V b) const {
    if constexpr (std::is_floating_point_v<V>) {
      return -Operator<ReduceOp::Kind::min>()(-a, -b);
    } else {
      return a < b ? b : a;
    }
  }
};

template <>
struct Operator<ReduceOp::Kind::band> {
  template <typename V>
  RONDO_HOST_DEVICE V operator()(V a, V b) const {
    return a & b;
  }
};

template <>
struct Operator<ReduceOp::Kind::bor> {
  template <typename V>
  RONDO_HOST_DEVICE V operator()(V a, V b) const {
    return a | b;
  }
};

template <>
struct Operator<ReduceOp::Kind::bxor> {
  template <typename V>
  RONDO_HOST_DEVICE V operator()(V a, V b) const {
    return a ^ b;
  }
};

} // namespace rondo::kernels::cuda
