// The CUDA driver, if the machine has one: which devices there are, and how to wait for a stream.
#pragma once

#include <cstddef>

namespace rondo::compat::nccl {

/// The driver is opened at run time, so the library also loads on machines without one. Any thread
/// may call.
class CudaDriver {
 public:
  /// This process's driver. The first call looks for it.
  static const CudaDriver& get();

  /// Number of usable devices; 0 without a driver.
  int devices() const { return devices_; }
  /// The calling thread's current device, or the first device if it has none.
  int currentDevice() const;
  /// Whether streams can be waited for.
  bool there() const { return synchronize_ != nullptr; }
  /// Returns when all work in the stream is complete. Throws Refusal(ncclUnhandledCudaError).
  void synchronize(void* stream) const;
  /// Whether only GPUs can read the memory at this address.
  bool onDevice(const void* memory) const;
  /// Allocates memory of the current device. Throws Refusal(ncclUnhandledCudaError).
  void* allocate(std::size_t bytes) const;
  void free(void* memory) const;

 private:
  CudaDriver();

  int devices_ = 0;
  int (*current_)(int*) = nullptr;
  int (*synchronize_)(void*) = nullptr;
  int (*attribute_)(void*, int, unsigned long long) = nullptr;
  int (*allocate_)(unsigned long long*, std::size_t) = nullptr;
  int (*free_)(unsigned long long) = nullptr;
};

} // namespace rondo::compat::nccl
