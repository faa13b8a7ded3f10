// Errors of the CUDA runtime as Rondo's.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "rondo/error.h"

namespace rondo::kernels::cuda {

/// Throws what a failed call of the runtime means; `what` says what was tried.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError(); // or the next call's check would see it again
  const bool missing = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                       status == cudaErrorNoKernelImageForDevice ||
                       status == cudaErrorInvalidDeviceFunction ||
                       status == cudaErrorUnsupportedPtxVersion;
  throw Error(missing ? ErrorCode::unsupported : ErrorCode::system,
              std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

} // namespace rondo::kernels::cuda
