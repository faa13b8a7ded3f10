// Macros for device code: what only the GPU's compiler needs, or only the GPU can do.
#pragma once

#include "device/host_device.h"

/// 1 while device code is compiled. An instruction of the GPU may then replace portable code that
/// gives the same bits.
#ifdef __CUDA_ARCH__
#define RONDO_DEVICE_PASS 1
/// Whether cvt converts the 8-bit floats.
#define RONDO_DEVICE_FLOAT8 (__CUDA_ARCH__ >= 890)
#else
#define RONDO_DEVICE_PASS 0
#define RONDO_DEVICE_FLOAT8 0
#endif

/// Put before a loop of constant length over an array, to unroll it, so that the array can stay in
/// registers. The compiler does this by itself only if the body is short.
#ifdef __CUDA_ARCH__
#define RONDO_UNROLL _Pragma("unroll")
/// Put before a loop of unknown length whose body needs many registers: unrolling it would spill
/// registers.
#define RONDO_NO_UNROLL _Pragma("unroll 1")
#else
#define RONDO_UNROLL
#define RONDO_NO_UNROLL
#endif

namespace rondo::kernels::cuda {

/// The bits of a value as another type of the same size.
template <typename To, typename From>
RONDO_HOST_DEVICE To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from); // nvcc treats std::bit_cast as a host function
}

} // namespace rondo::kernels::cuda
