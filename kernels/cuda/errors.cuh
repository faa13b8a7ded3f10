// Converts errors of the CUDA runtime to rondo::Error.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "rondo/error.h"

namespace rondo::kernels::cuda {

/// Throws an Error if a call of the runtime failed. `what` describes the failed operation.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError(); // otherwise the next call's check would see the error again
  const bool missing = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                       status == cudaErrorNoKernelImageForDevice ||
                       status == cudaErrorInvalidDeviceFunction ||
                       status == cudaErrorUnsupportedPtxVersion;
  throw Error(missing ? ErrorCode::unsupported : ErrorCode::system,
              std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

} // namespace rondo::kernels::cuda
