// What tests of public calls on a real GPU share; all ranks are on one.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <string>
#include <thread>

#include "rondo/error.h"
#include "support/ranks.h"

namespace rondo::test {

inline void must(cudaError_t status) {
  if (status != cudaSuccess) throw Error(ErrorCode::system, cudaGetErrorString(status));
}

/// Returns when the stream is idle, which it must be within a minute. Copies to memory that is not
/// pinned would wait, too, but may hold up launches of other threads meanwhile: of ranks that it
/// waits for.
inline void await(cudaStream_t stream) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status != cudaErrorNotReady) return must(status);
    if (std::chrono::steady_clock::now() > until)
      throw Error(ErrorCode::timeout, "the stream has not been idle for a minute");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

inline Options onGpu(const std::string& transports = "", const std::string& algorithm = "") {
  Options options = plainOptions(transports, algorithm);
  options.device = 0;
  return options;
}

} // namespace rondo::test
