// Finds functions of the CUDA driver at run time, so that the library also loads on machines
// without a driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda/errors.cuh"
#include "rondo/error.h"

namespace rondo::device {

using kernels::cuda::check;

/// The driver's function `name` as of CUDA 12.0, or of `version`. Throws Error(unsupported) if the
/// driver does not have it.
template <class Function>
Function entry(const char* name, [[maybe_unused]] unsigned version = 12000) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result), name);
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result), name);
#endif
  if (!found || result != cudaDriverEntryPointSuccess)
    throw Error(ErrorCode::unsupported, std::string("CUDA: the driver has no ") + name);
  return reinterpret_cast<Function>(found);
}

inline void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw Error(ErrorCode::system, std::string("CUDA: ") + what + ": driver error " +
                                       std::to_string(static_cast<int>(result)));
}

} // namespace rondo::device
