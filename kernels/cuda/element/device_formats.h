// The small floats with the GPU's own conversions, where these give the same bits as the portable
// code. Otherwise (on the host, and for the 8-bit floats before sm_89) with the portable code.
// Elements are converted in pairs, because the GPU converts two at the cost of one. Included only
// by formats.h.
//
// Only the function bodies depend on the architecture. If a type did, the kernels on the device
// would have other names than the host looks for.
#pragma once

#include "kernels/cuda/element/formats.h"

namespace rondo::kernels::cuda {

/// Like the portable code, cvt rounds to nearest even, keeps subnormals, and overflows to infinity.
struct Float16 : PortableFloat16 {
  static RONDO_HOST_DEVICE float load(Element code) {
#if RONDO_DEVICE_PASS
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
    return value;
#else
    return PortableFloat16::load(code);
#endif
  }
  static RONDO_HOST_DEVICE Element store(float value) {
    return static_cast<Element>(storePair(value, 0));
  }
  static RONDO_HOST_DEVICE void loadPair(std::uint32_t codes, float& low, float& high) {
    low = load(static_cast<Element>(codes));
    high = load(static_cast<Element>(codes >> 16));
  }
  /// cvt puts its second operand into the lower half.
  static RONDO_HOST_DEVICE std::uint32_t storePair(float low, float high) {
#if RONDO_DEVICE_PASS
    std::uint32_t codes;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(codes) : "f"(high), "f"(low));
    return codes;
#else
    return PortableFloat16::store(low) | static_cast<std::uint32_t>(PortableFloat16::store(high))
                                             << 16;
#endif
  }
};

struct BFloat16 : PortableBFloat16 {
  static RONDO_HOST_DEVICE Element store(float value) {
    return static_cast<Element>(storePair(value, 0));
  }
  static RONDO_HOST_DEVICE void loadPair(std::uint32_t codes, float& low, float& high) {
    low = bitCast<float>(codes << 16);
    high = bitCast<float>(codes & 0xffff0000u);
  }
  static RONDO_HOST_DEVICE std::uint32_t storePair(float low, float high) {
#if RONDO_DEVICE_PASS
    std::uint32_t codes;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(codes) : "f"(high), "f"(low));
    return codes;
#else
    return PortableBFloat16::store(low) | static_cast<std::uint32_t>(PortableBFloat16::store(high))
                                              << 16;
#endif
  }
};

struct Float8E4M3 : PortableFloat8E4M3 {
  /// The code is a binary16 with fewer exponent and mantissa bits. With its bits in place, the
  /// value is too small by a factor of 2^8.
  static RONDO_HOST_DEVICE float load(Element code) {
#if RONDO_DEVICE_PASS
    const unsigned magnitude = code & 0x7fu;
    const auto half = static_cast<std::uint16_t>((code & 0x80u) << 8 | magnitude << 7);
    return magnitude == 0x7f ? bitCast<float>(0x7fffffffu) : Float16::load(half) * 256.0f;
#else
    return PortableFloat8E4M3::load(code);
#endif
  }
  static RONDO_HOST_DEVICE void loadPair(std::uint32_t codes, float& low, float& high) {
#if RONDO_DEVICE_FLOAT8
    std::uint32_t halves; // every E4M3 number is a binary16 number
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<std::uint16_t>(codes)));
    Float16::loadPair(halves, low, high);
#else
    low = load(static_cast<Element>(codes));
    high = load(static_cast<Element>(codes >> 8));
#endif
  }
  /// satfinite turns overflow and infinity into the largest number and NaN into 0x7f, as E4M3
  /// requires.
  static RONDO_HOST_DEVICE std::uint32_t storePair(float low, float high) {
#if RONDO_DEVICE_FLOAT8
    std::uint16_t codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
#else
    return store(low) | static_cast<std::uint32_t>(store(high)) << 8;
#endif
  }
};

struct Float8E5M2 : PortableFloat8E5M2 {
  /// The code is a binary16 with a shorter mantissa.
  static RONDO_HOST_DEVICE void loadPair(std::uint32_t codes, float& low, float& high) {
    low = Float16::load(static_cast<std::uint16_t>(codes << 8));
    high = Float16::load(static_cast<std::uint16_t>(codes & 0xff00));
  }
  /// cvt can only saturate here. Adding 1 to the code of the largest number gives infinity.
  static RONDO_HOST_DEVICE std::uint32_t storePair(float low, float high) {
#if RONDO_DEVICE_FLOAT8
    std::uint16_t codes;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    constexpr float kOverflow = 61440; // halfway from the largest number to the next power of two
    return codes + (fabsf(low) >= kOverflow ? 1 : 0) + (fabsf(high) >= kOverflow ? 256 : 0);
#else
    return store(low) | static_cast<std::uint32_t>(store(high)) << 8;
#endif
  }
};

} // namespace rondo::kernels::cuda
