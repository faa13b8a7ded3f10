// The start of the module librondo_cuda.so.
#include "device/cuda/module.h"

#include "device/cuda/annotate.h"
#include "device/cuda/device.h"

extern "C" __attribute__((visibility("default"))) const rondo::device::CudaModule* rondo_cuda_1() {
  using namespace rondo::device;
  static constexpr CudaModule kModule{[](int number) { return openCudaDevice(number); }, beginRange,
                                      endRange};
  return &kModule;
}
