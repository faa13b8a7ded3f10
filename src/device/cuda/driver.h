// Functions of the driver, asked of the runtime: the library must load where there is no driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda/errors.cuh"
#include "rondo/error.h"

namespace rondo::device {

using kernels::cuda::check;

/// As CUDA 12.0 has it, or a later version; throws where there is none.
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
