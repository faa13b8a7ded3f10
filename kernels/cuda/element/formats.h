// Converts elements of each type to values for computing, and back; on the device and on the host.
// The bits are the same as those of the CPU's formats (kernels/cpu/formats-inl.h), except for NaN
// payloads.
//
//   Format<DataType::float16>::Element   the bits of one element, an unsigned integer
//   ...::Value                           the type for computing: fp32 for the small floats
//   ...::load(Element), store(Value)     exact; rounded to nearest even
//   unpack<F>(word, values), pack<F>     the same for all elements of a 32- or 64-bit word
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/compile.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// Integers. The narrow ones are computed in 32 bits: the low bits of a sum or product depend only
/// on low bits, so truncating at the end gives the same result as wrapping at each step.
template <typename T>
struct Integer {
  using Element = std::make_unsigned_t<T>;
  using Narrow = std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>;
  using Value = std::conditional_t<sizeof(T) < 4, Narrow, T>;
  static RONDO_HOST_DEVICE Value load(Element code) { return static_cast<T>(code); }
  static RONDO_HOST_DEVICE Element store(Value value) { return static_cast<Element>(value); }
};

/// fp32 and fp64 are computed in their own type.
template <typename T, typename Bits>
struct PlainFloat {
  using Element = Bits;
  using Value = T;
  static RONDO_HOST_DEVICE Value load(Element code) { return bitCast<T>(code); }
  static RONDO_HOST_DEVICE Element store(Value value) { return bitCast<Bits>(value); }
};

/// A float with a sign, `kExponent` exponent bits and `kMantissa` mantissa bits, converted with
/// integer instructions. If kHasInfinity, as in IEEE 754. If not, only the code of all ones is NaN,
/// and overflow gives the largest number.
template <typename T, int kExponent, int kMantissa, bool kHasInfinity>
struct SmallFloat {
  using Element = T;
  using Value = float;

  static RONDO_HOST_DEVICE float load(Element code) {
    const std::uint32_t magnitude = code & kMagnitudeMask;
    const std::uint32_t sign = static_cast<std::uint32_t>(code ^ magnitude) << kSignShift;
    const std::uint32_t normal = (magnitude << kDropped) + kRebias;
    std::uint32_t bits = normal;
    if (magnitude < 1u << kMantissa) {
      // A subnormal: its code becomes the mantissa of the smallest normal number, which is then
      // subtracted.
      bits = bitCast<std::uint32_t>(bitCast<float>(normal + kExponentStep) -
                                    bitCast<float>(kRebias + kExponentStep));
    } else if (kHasInfinity ? magnitude >= kInfinity : magnitude == kMagnitudeMask) {
      bits = kHasInfinity ? normal + kRebias : 0x7fffffffu;
    }
    return bitCast<float>(bits | sign);
  }

  static RONDO_HOST_DEVICE Element store(float value) {
    const auto all = bitCast<std::uint32_t>(value);
    const std::uint32_t magnitude = all & 0x7fffffffu;
    std::uint32_t code = 0;
    if (magnitude < kRebias + kExponentStep) {
      // Added to a number whose last bit is the smallest subnormal, so the addition rounds it.
      const float sum = bitCast<float>(magnitude) + bitCast<float>(kAnchor);
      code = bitCast<std::uint32_t>(sum) - kAnchor;
    } else {
      // Rounds to nearest even by a carry, which goes into the exponent if the mantissa is full.
      const std::uint32_t odd = magnitude >> kDropped & 1;
      code = (magnitude + kBelowHalf + odd - kRebias) >> kDropped;
    }
    if (code > kLargest) code = kLargest;
    if (magnitude > 0x7f800000u) code = kNan;
    return static_cast<Element>(code | (all >> kSignShift & (kMagnitudeMask + 1)));
  }

 private:
  static constexpr int kDropped = 23 - kMantissa; ///< mantissa bits that fp32 has in addition
  static constexpr int kSignShift = 31 - kExponent - kMantissa;
  static constexpr std::uint32_t kMagnitudeMask = (1u << (kExponent + kMantissa)) - 1;
  static constexpr std::uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  static constexpr std::uint32_t kLargest = kHasInfinity ? kInfinity : kMagnitudeMask - 1;
  static constexpr std::uint32_t kNan =
      kHasInfinity ? kInfinity | 1u << (kMantissa - 1) : kMagnitudeMask;
  static constexpr std::uint32_t kExponentStep = 1u << 23; ///< one unit of the exponent in fp32
  /// Difference of the two exponent biases, at the position of the exponent.
  static constexpr std::uint32_t kRebias = (127 - ((1u << (kExponent - 1)) - 1)) * kExponentStep;
  static constexpr std::uint32_t kAnchor = kRebias + (1 + kDropped) * kExponentStep;
  static constexpr std::uint32_t kBelowHalf = (1u << (kDropped - 1)) - 1;
};

using PortableFloat16 = SmallFloat<std::uint16_t, 5, 10, true>;
using PortableFloat8E4M3 = SmallFloat<std::uint8_t, 4, 3, false>;
using PortableFloat8E5M2 = SmallFloat<std::uint8_t, 5, 2, true>;

/// bfloat16 is the upper half of a binary32.
struct PortableBFloat16 {
  using Element = std::uint16_t;
  using Value = float;
  static RONDO_HOST_DEVICE float load(Element code) {
    return bitCast<float>(static_cast<std::uint32_t>(code) << 16);
  }
  static RONDO_HOST_DEVICE Element store(float value) {
    const auto bits = bitCast<std::uint32_t>(value);
    // the rounding's carry could turn a NaN into -0
    if (value != value) return static_cast<Element>(bits >> 16 | 0x40);
    return static_cast<Element>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

} // namespace rondo::kernels::cuda

#include "kernels/cuda/element/device_formats.h"

namespace rondo::kernels::cuda {

/// The format of an integer type, by size and sign.
template <DataType kType>
struct FormatOf {
  static constexpr int kBits = 8 * static_cast<int>(sizeOf(kType));
  using Unsigned = std::conditional_t<
      kBits == 8, std::uint8_t,
      std::conditional_t<kBits == 16, std::uint16_t,
                         std::conditional_t<kBits == 32, std::uint32_t, std::uint64_t>>>;
  using type =
      Integer<std::conditional_t<traits(kType).isSigned(), std::make_signed_t<Unsigned>, Unsigned>>;
};
/// The format of a float with 16 or 8 bits: as its row says, unless it is specialized below.
template <DataType kType>
requires(isFloat(kType) && sizeOf(kType) <= 2) struct FormatOf<kType> {
  using Code = std::conditional_t<sizeOf(kType) == 1, std::uint8_t, std::uint16_t>;
  using type = SmallFloat<Code, traits(kType).format.exponent, traits(kType).format.mantissa,
                          traits(kType).format.infinity>;
};
template <>
struct FormatOf<DataType::float16> : std::type_identity<Float16> {};
template <>
struct FormatOf<DataType::bfloat16> : std::type_identity<BFloat16> {};
template <>
struct FormatOf<DataType::float8e4m3> : std::type_identity<Float8E4M3> {};
template <>
struct FormatOf<DataType::float8e5m2> : std::type_identity<Float8E5M2> {};
template <>
struct FormatOf<DataType::float32> : std::type_identity<PlainFloat<float, std::uint32_t>> {};
template <>
struct FormatOf<DataType::float64> : std::type_identity<PlainFloat<double, std::uint64_t>> {};

template <DataType kType>
using Format = typename FormatOf<kType>::type;

/// The unsigned integer in which elements are moved through registers, and how many it holds.
template <class F>
using Word = std::conditional_t<sizeof(typename F::Element) == 8, std::uint64_t, std::uint32_t>;
template <class F>
inline constexpr int kPerWord = sizeof(Word<F>) / sizeof(typename F::Element);

template <class F>
RONDO_HOST_DEVICE void unpack(Word<F> word, typename F::Value (&values)[kPerWord<F>]) {
  constexpr int kBits = 8 * sizeof(typename F::Element);
  if constexpr (kPerWord<F> == 1) {
    values[0] = F::load(word);
  } else if constexpr (requires { &F::loadPair; }) {
    RONDO_UNROLL
    for (int i = 0; i < kPerWord<F>; i += 2)
      F::loadPair(word >> (kBits * i), values[i], values[i + 1]);
  } else {
    RONDO_UNROLL
    for (int i = 0; i < kPerWord<F>; ++i)
      values[i] = F::load(static_cast<typename F::Element>(word >> (kBits * i)));
  }
}

template <class F>
RONDO_HOST_DEVICE Word<F> pack(const typename F::Value (&values)[kPerWord<F>]) {
  constexpr int kBits = 8 * sizeof(typename F::Element);
  if constexpr (kPerWord<F> == 1) {
    return F::store(values[0]);
  } else {
    Word<F> word = 0;
    if constexpr (requires { &F::storePair; }) {
      RONDO_UNROLL
      for (int i = 0; i < kPerWord<F>; i += 2)
        word |= F::storePair(values[i], values[i + 1]) << (kBits * i);
    } else {
      RONDO_UNROLL
      for (int i = 0; i < kPerWord<F>; ++i)
        word |= static_cast<Word<F>>(F::store(values[i])) << (kBits * i);
    }
    return word;
  }
}

} // namespace rondo::kernels::cuda
