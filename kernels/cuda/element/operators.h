// The reduction operators on values, on the device and on the host: two operands in, one out. Bit
// for bit what the CPU's operators do (kernels/cpu/operators-inl.h), NaN's payload aside.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/compile.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// Operator<kind>()(a, b). avg and premul_sum add: scaling and dividing are scaling.h's.
template <ReduceOp::Kind kKind>
struct Operator;

/// Integers wrap; doing it unsigned makes that defined.
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

/// The GPU's own minimum also orders the zeros, and gives NaN for NaN. It has none for fp64.
RONDO_HOST_DEVICE float deviceMinimum([[maybe_unused]] float a, [[maybe_unused]] float b) {
  float result = 0;
#if RONDO_DEVICE_PASS
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
#endif
  return result;
}

/// Floats: NaN if either is NaN, and -0 is less than +0, so that the result does not depend on the
/// order of the operands.
template <>
struct Operator<ReduceOp::Kind::min> {
  template <typename V>
  RONDO_HOST_DEVICE V operator()(V a, V b) const {
    if constexpr (std::is_same_v<V, float> && RONDO_DEVICE_PASS) {
      return deviceMinimum(a, b);
    } else if constexpr (std::is_floating_point_v<V>) {
      using Bits = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
      // Both are the minimum, unless the operands are unordered or equal: then they are the two
      // operands. The bits of a NaN or'ed with any others are those of a NaN; -0 or'ed with +0
      // is -0.
      const V ab = a < b ? a : b;
      const V ba = b < a ? b : a;
      return bitCast<V>(bitCast<Bits>(ab) | bitCast<Bits>(ba));
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
