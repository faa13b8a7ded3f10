// What lets one header be device code under nvcc and plain C++ under any other compiler.
#pragma once

/// On a function that runs on both sides. The same source gives the same bits on both: CUDA sources
/// are compiled without fused multiply-adds, as all others.
#ifdef __CUDACC__
#define RONDO_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RONDO_HOST_DEVICE inline
#endif
