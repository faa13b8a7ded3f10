// Converts elements of each type to vectors and back. A format has: Lane, the type in memory; D,
// the tag of the vectors in which values are computed; load() and store() of one vector of
// unaligned elements. Compiled once for each instruction set.
#if defined(RONDO_KERNELS_CPU_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_FORMATS_INL_H_
#undef RONDO_KERNELS_CPU_FORMATS_INL_H_
#else
#define RONDO_KERNELS_CPU_FORMATS_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "rondo/types.h"

// vcvtph2ps and vcvtps2ph convert binary16 exactly as IEEE 754 requires. Without them, SmallFloat
// does.
#undef RONDO_NATIVE_FLOAT16
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define RONDO_NATIVE_FLOAT16 1
#else
#define RONDO_NATIVE_FLOAT16 0
#endif

// The software conversions are long, and a kernel contains twenty of them. With a sanitizer each
// would be inlined with its checks, and the compiler would need minutes for one file.
#undef RONDO_CONVERSION
#if HWY_IS_ASAN || HWY_IS_MSAN || HWY_IS_TSAN || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__)
#define RONDO_CONVERSION HWY_NOINLINE
#else
#define RONDO_CONVERSION HWY_INLINE
#endif

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Integers, fp32 and fp64 are computed in their own type.
template <typename T>
struct Plain {
  using Lane = T;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static HWY_INLINE V load(const Lane* from) { return hn::LoadU(D(), from); }
  static HWY_INLINE void store(V v, Lane* to) { hn::StoreU(v, D(), to); }
};

/// Bytes in 16-bit lanes, for the product, because no instruction set multiplies bytes. The low
/// half of a 16-bit product is the product of the low halves.
struct ByteInWord {
  using Lane = std::uint8_t;
  using D = hn::ScalableTag<std::uint16_t>;
  using V = hn::Vec<D>;
  static HWY_INLINE V load(const Lane* from) {
    return hn::PromoteTo(D(), hn::LoadU(hn::Rebind<Lane, D>(), from));
  }
  static HWY_INLINE void store(V v, Lane* to) {
    const V low = hn::And(v, hn::Set(D(), 0xff)); // needed because DemoteTo would saturate
    const hn::Rebind<Lane, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<D>(), low)), narrow, to);
  }
};

/// Codes of 8 or 16 bits in 32-bit lanes, in which the conversions below work.
template <typename T>
struct Codes {
  using Lane = T;
  using D = hn::ScalableTag<float>;
  using DI = hn::RebindToSigned<D>;
  using V = hn::Vec<D>;
  using VI = hn::Vec<DI>;
  static HWY_INLINE VI load(const Lane* from) {
    return hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<Lane, DI>(), from));
  }
  static HWY_INLINE void store(VI codes, Lane* to) {
    const hn::Rebind<Lane, DI> narrow;
    hn::StoreU(hn::DemoteTo(narrow, codes), narrow, to);
  }
};

/// bfloat16 is the upper half of a binary32.
struct BFloat16 : Codes<std::uint16_t> {
  static RONDO_CONVERSION V load(const Lane* from) {
    return hn::BitCast(D(), hn::ShiftLeft<16>(Codes::load(from)));
  }
  static RONDO_CONVERSION void store(V v, Lane* to) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(du, 1));
    // Rounds to nearest: the addition carries into the upper half above the tie, and at the tie if
    // that makes the result even. From the largest finite number the carry gives infinity.
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd));
    // A NaN must stay a NaN. If its low bits are set, as after a scaling, the carry would turn it
    // into -0.
    const auto quiet = hn::Or(upper, hn::Set(du, 0x40));
    const auto is_number = hn::RebindMask(du, hn::Eq(v, v));
    Codes::store(hn::BitCast(DI(), hn::IfThenElse(is_number, rounded, quiet)), to);
  }
};

/// A float with a sign, `kExponent` exponent bits and `kMantissa` mantissa bits. If kHasInfinity,
/// as in IEEE 754. If not, only the code of all ones is NaN, and overflow gives the largest number.
template <typename T, int kExponent, int kMantissa, bool kHasInfinity>
struct SmallFloat : Codes<T> {
  using typename Codes<T>::Lane;
  using typename Codes<T>::D;
  using typename Codes<T>::DI;
  using typename Codes<T>::V;
  using typename Codes<T>::VI;

  static RONDO_CONVERSION V load(const Lane* from) {
    const D d;
    const DI di;
    const VI codes = Codes<T>::load(from);
    const VI magnitude = hn::And(codes, hn::Set(di, kMagnitudeMask));
    const VI sign = hn::ShiftLeft<31 - kExponent - kMantissa>(hn::Xor(codes, magnitude));
    const VI rebias = hn::Set(di, kRebias);
    const VI normal = hn::Add(hn::ShiftLeft<kDropped>(magnitude), rebias);
    // A subnormal: its code becomes the mantissa of the smallest normal number, which is then
    // subtracted.
    const V implicit_one = hn::BitCast(d, hn::Set(di, kRebias + kExponentStep));
    const V above = hn::BitCast(d, hn::Add(normal, hn::Set(di, kExponentStep)));
    const VI subnormal = hn::BitCast(di, hn::Sub(above, implicit_one));
    VI bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 1 << kMantissa)), subnormal, normal);
    if constexpr (kHasInfinity) {
      const auto special = hn::Gt(magnitude, hn::Set(di, kInfinity - 1));
      bits = hn::IfThenElse(special, hn::Add(normal, rebias), bits);
    } else {
      const auto nan = hn::Eq(magnitude, hn::Set(di, kMagnitudeMask));
      bits = hn::IfThenElse(nan, hn::Set(di, 0x7fffffff), bits);
    }
    return hn::BitCast(d, hn::Or(bits, sign));
  }

  static RONDO_CONVERSION void store(V v, Lane* to) {
    const D d;
    const DI di;
    const VI all = hn::BitCast(di, v);
    const VI magnitude = hn::And(all, hn::Set(di, 0x7fffffff));
    // Normal: rounds to nearest even by a carry, which goes into the exponent if the mantissa is
    // full.
    const VI odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(di, 1));
    const VI half = hn::Set(di, (1 << (kDropped - 1)) - 1 - kRebias);
    const VI normal = hn::ShiftRight<kDropped>(hn::Add(hn::Add(magnitude, half), odd));
    // Subnormal: added to a number whose last bit is the smallest subnormal, so the addition rounds
    // it.
    const VI anchor = hn::Set(di, kRebias + (1 + kDropped) * kExponentStep);
    const V sum = hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, anchor));
    const VI subnormal = hn::Sub(hn::BitCast(di, sum), anchor);
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(di, kRebias + kExponentStep));
    VI code = hn::IfThenElse(is_subnormal, subnormal, normal);
    code = hn::Min(code, hn::Set(di, kHasInfinity ? kInfinity : kMagnitudeMask - 1));
    const VI nan = hn::Set(di, kHasInfinity ? kInfinity | (1 << (kMantissa - 1)) : kMagnitudeMask);
    code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), nan, code);
    const VI sign =
        hn::And(hn::ShiftRight<31 - kExponent - kMantissa>(all), hn::Set(di, kMagnitudeMask + 1));
    Codes<T>::store(hn::Or(code, sign), to);
  }

 private:
  static constexpr int kMagnitudeMask = (1 << (kExponent + kMantissa)) - 1;
  static constexpr int kInfinity = ((1 << kExponent) - 1) << kMantissa;
  static constexpr int kDropped = 23 - kMantissa; ///< mantissa bits that fp32 has in addition
  static constexpr int kExponentStep = 1 << 23;   ///< one unit of the exponent in fp32
  /// Difference of the two exponent biases, at the position of the exponent.
  static constexpr int kRebias = (127 - ((1 << (kExponent - 1)) - 1)) * kExponentStep;
};

#if RONDO_NATIVE_FLOAT16
struct Float16 {
  using Lane = std::uint16_t;
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  using DHalf = hn::Rebind<hwy::float16_t, D>;
  static HWY_INLINE V load(const Lane* from) {
    const hn::Rebind<Lane, D> codes;
    return hn::PromoteTo(D(), hn::BitCast(DHalf(), hn::LoadU(codes, from)));
  }
  static HWY_INLINE void store(V v, Lane* to) {
    const hn::Rebind<Lane, D> codes;
    hn::StoreU(hn::BitCast(codes, hn::DemoteTo(DHalf(), v)), codes, to);
  }
};
#endif

/// The format of a float with 16 or 8 bits: as its row says, or one that does the same faster.
template <DataType kType,
          class Code = std::conditional_t<sizeOf(kType) == 1, std::uint8_t, std::uint16_t>>
struct SmallFloatOf
    : std::type_identity<SmallFloat<Code, traits(kType).format.exponent,
                                    traits(kType).format.mantissa, traits(kType).format.infinity>> {
};
template <>
struct SmallFloatOf<DataType::bfloat16> : std::type_identity<BFloat16> {};
#if RONDO_NATIVE_FLOAT16
template <>
struct SmallFloatOf<DataType::float16> : std::type_identity<Float16> {};
#endif

} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
