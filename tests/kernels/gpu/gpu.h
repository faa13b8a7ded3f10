// What the tests that need a GPU share: whether there is one, memory on it, and cases that say why
// they did not run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/test.h"

/// First line of a case that needs a GPU: without one it ends here and says so.
#define NEEDS_GPU()                                                \
  if (const auto reason = rondo::test::noGpu(); !reason.empty()) { \
    WARN("skipped: " << reason);                                   \
    return;                                                        \
  }

namespace rondo::test {

/// Ranks that share a GPU have a stream each, which must not share a queue. Before the first call
/// of the runtime.
[[maybe_unused]] inline const int kQueues = ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

/// Empty, or why no kernel can run here.
inline std::string noGpu() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return "";
  cudaGetLastError();
  return std::string("no GPU: ") +
         (status == cudaSuccess ? "none found" : cudaGetErrorString(status));
}

inline void cuda(cudaError_t status) {
  INFO(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

/// Bytes on the device, filled from the host and read back.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) { cuda(cudaMalloc(&data_, bytes + 1)); }
  explicit DeviceBytes(const std::vector<std::byte>& host) : DeviceBytes(host.size()) { put(host); }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  void put(const std::vector<std::byte>& host) {
    REQUIRE(host.size() <= bytes_);
    cuda(cudaMemcpy(data_, host.data(), host.size(), cudaMemcpyHostToDevice));
  }
  /// Waits for all kernels.
  std::vector<std::byte> get() const {
    std::vector<std::byte> host(bytes_);
    cuda(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

} // namespace rondo::test
