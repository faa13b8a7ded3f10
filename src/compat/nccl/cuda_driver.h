// The CUDA driver, if the machine has one: which devices there are, and how to wait for a stream.
#pragma once

#include <cstddef>

namespace rondo::compat::nccl {

/// Opened at run time, so that the library loads where there is none. Any thread.
class CudaDriver {
 public:
  /// Of this process; looks for it once.
  static const CudaDriver& get();

  /// Devices that can be used; 0 without a driver.
  int devices() const { return devices_; }
  /// That the calling thread has made current, else the first.
  int currentDevice() const;
  /// Whether streams can be waited for.
  bool there() const { return synchronize_ != nullptr; }
  /// Returns when the stream has done all it holds. Throws Refusal(ncclUnhandledCudaError).
  void synchronize(void* stream) const;
  /// Memory of the current device. Throws Refusal(ncclUnhandledCudaError).
  void* allocate(std::size_t bytes) const;
  void free(void* memory) const;

 private:
  CudaDriver();

  int devices_ = 0;
  int (*current_)(int*) = nullptr;
  int (*synchronize_)(void*) = nullptr;
  int (*allocate_)(unsigned long long*, std::size_t) = nullptr;
  int (*free_)(unsigned long long) = nullptr;
};

} // namespace rondo::compat::nccl
