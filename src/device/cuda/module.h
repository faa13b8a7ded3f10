// The interface of the module with everything that needs CUDA: this folder, the plan kernels and
// the CUDA runtime. The library opens it when a device is first opened, so it is not linked with
// CUDA.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"

namespace rondo::device {

struct CudaModule {
  /// As openDevice().
  std::shared_ptr<Device> (*open)(int number);
  /// Begins an NVTX range, and ends the range with the number that the first one returned.
  std::uint64_t (*beginRange)(const char* text);
  void (*endRange)(std::uint64_t range);
};

/// Raise the number in kModuleSymbol when CudaModule changes, or a class, a table or an enumeration
/// that passes through it: device.h, launch.h, program.h, ring.h, window.h, rondo/types.h. Then a
/// module of an older version is not used.
inline constexpr const char* kModuleFile = "librondo_cuda.so";
inline constexpr const char* kModuleSymbol = "rondo_cuda_1";
using StartFunction = const CudaModule* (*)();

} // namespace rondo::device
