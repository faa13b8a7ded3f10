// Lets one header be device code under nvcc and plain C++ under other compilers.
#pragma once

/// For functions that run on both sides. They give the same bits on both: CUDA sources, like all
/// others, are compiled without fused multiply-adds.
#ifdef __CUDACC__
#define RONDO_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RONDO_HOST_DEVICE inline
#endif
