// Where the GPU's compiler is asked for what a host's does by itself, or has instructions that a
// host has not.
#pragma once

#include "device/host_device.h"

/// True while device code is compiled: where an instruction of the GPU gives the bits of the
/// portable code.
#ifdef __CUDA_ARCH__
#define RONDO_DEVICE_PASS 1
/// cvt to and from the 8-bit floats.
#define RONDO_DEVICE_FLOAT8 (__CUDA_ARCH__ >= 890)
#else
#define RONDO_DEVICE_PASS 0
#define RONDO_DEVICE_FLOAT8 0
#endif

/// Before a loop of known length over an array: unrolled, so that the array can stay in registers.
/// The compiler does it by itself only where the body is short.
#ifdef __CUDA_ARCH__
#define RONDO_UNROLL _Pragma("unroll")
/// Before a loop of unknown length whose body fills the registers: unrolled, it would spill.
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
  return __builtin_bit_cast(To, from); // std::bit_cast is a host function to nvcc
}

} // namespace rondo::kernels::cuda
