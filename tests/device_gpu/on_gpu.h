// What tests of public calls on a real GPU share; all ranks are on one.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "rondo/error.h"
#include "support/ranks.h"

namespace rondo::test {

inline void must(cudaError_t status) {
  if (status != cudaSuccess) throw Error(ErrorCode::system, cudaGetErrorString(status));
}

inline Options onGpu(const std::string& transports = "", const std::string& algorithm = "") {
  Options options = plainOptions(transports, algorithm);
  options.device = 0;
  return options;
}

} // namespace rondo::test
