// Loads libcuda.so.1 and looks up the driver's functions in it.
#include "compat/nccl/cuda_driver.h"

#include <dlfcn.h>

#include <string>

#include "compat/nccl/errors.h"

namespace rondo::compat::nccl {

namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

void check(int result, const std::string& what) {
  if (result != 0)
    refuse(ncclUnhandledCudaError, what + ": the CUDA driver answers " + std::to_string(result));
}

} // namespace

const CudaDriver& CudaDriver::get() {
  static const CudaDriver driver;
  return driver;
}

CudaDriver::CudaDriver() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return;
  int (*init)(unsigned) = nullptr;
  int (*count)(int*) = nullptr;
  if (!find(library, "cuInit", init) || !find(library, "cuDeviceGetCount", count) ||
      !find(library, "cuCtxGetDevice", current_) || !find(library, "cuMemAlloc_v2", allocate_) ||
      !find(library, "cuMemFree_v2", free_))
    return;
  if (init(0) != 0) return;
  find(library, "cuStreamSynchronize", synchronize_);
  find(library, "cuPointerGetAttribute", attribute_);
  if (count(&devices_) != 0) devices_ = 0;
}

int CudaDriver::currentDevice() const {
  int device = 0;
  return current_(&device) == 0 ? device : 0;
}

void CudaDriver::synchronize(void* stream) const {
  check(synchronize_(stream), "waiting for the stream");
}

bool CudaDriver::onDevice(const void* memory) const {
  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED and CU_MEMORYTYPE_DEVICE.
  constexpr int kType = 2, kManaged = 8;
  constexpr unsigned kDevice = 2;
  const auto address = reinterpret_cast<unsigned long long>(memory);
  unsigned type = 0, managed = 0; // the driver answers an error for memory that it does not know
  return attribute_ && attribute_(&type, kType, address) == 0 && type == kDevice &&
         !(attribute_(&managed, kManaged, address) == 0 && managed != 0);
}

void* CudaDriver::allocate(std::size_t bytes) const {
  unsigned long long address = 0;
  check(allocate_(&address, bytes), "allocating " + std::to_string(bytes) + " bytes");
  return reinterpret_cast<void*>(address);
}

void CudaDriver::free(void* memory) const {
  check(free_(reinterpret_cast<unsigned long long>(memory)), "freeing device memory");
}

} // namespace rondo::compat::nccl
