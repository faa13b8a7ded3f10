// Device memory for several processes.
#include "device/cuda/shared_memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>

#include "device/cuda/current.h"
#include "device/cuda/driver.h"
#include "rondo/error.h"

namespace rondo::device {

namespace {

constexpr CUmemAllocationHandleType kHandle = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

struct Driver {
  decltype(&cuDeviceGetAttribute) attribute =
      entry<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  decltype(&cuMemGetAllocationGranularity) granularity =
      entry<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemCreate) create = entry<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = entry<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemExportToShareableHandle) exported =
      entry<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle");
  decltype(&cuMemImportFromShareableHandle) imported =
      entry<decltype(&cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle");
  decltype(&cuMemAddressReserve) reserve =
      entry<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) unreserve = entry<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemMap) map = entry<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = entry<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) access = entry<decltype(&cuMemSetAccess)>("cuMemSetAccess");

  static const Driver& get() {
    static const Driver one;
    return one;
  }
};

CUmemAllocationProp propertiesOf(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = kHandle;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

/// Both sides come to the same number: they use devices of one kind.
std::size_t wholeUnits(int device, std::size_t bytes) {
  const CUmemAllocationProp properties = propertiesOf(device);
  std::size_t unit = 0;
  must(Driver::get().granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
       "no unit of shared memory");
  return (bytes + unit - 1) / unit * unit;
}

/// An allocation, which lasts as long as somebody has it or has it mapped.
class Allocation {
 public:
  explicit Allocation(CUmemGenericAllocationHandle handle) : handle_(handle) {}
  ~Allocation() { Driver::get().release(handle_); }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  CUmemGenericAllocationHandle get() const { return handle_; }

 private:
  const CUmemGenericAllocationHandle handle_;
};

class Mapping {
 public:
  Mapping(int device, const Allocation& allocation, std::size_t bytes) : bytes_(bytes) {
    const Driver& driver = Driver::get();
    must(driver.reserve(&address_, bytes, 0, 0, 0), "no addresses for shared memory");
    CUresult result = driver.map(address_, bytes, 0, allocation.get(), 0);
    mapped_ = result == CUDA_SUCCESS;
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device},
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (mapped_) result = driver.access(address_, bytes, &access, 1);
    if (result == CUDA_SUCCESS) return;
    unmap();
    must(result, "shared memory was not mapped");
  }
  ~Mapping() { unmap(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* data() const {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address_));
  }

 private:
  void unmap() {
    const Driver& driver = Driver::get();
    if (mapped_) driver.unmap(address_, bytes_);
    driver.unreserve(address_, bytes_);
  }

  const std::size_t bytes_;
  CUdeviceptr address_ = 0;
  bool mapped_ = false;
};

Memory mapOn(int device, const Allocation& allocation, std::size_t bytes) {
  const auto mapping = std::make_shared<Mapping>(device, allocation, bytes);
  return {mapping, mapping->data()};
}

} // namespace

bool sharesMemory(int device) {
  int possible = 0;
  try {
    return Driver::get().attribute(&possible,
                                   CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                   device) == CUDA_SUCCESS &&
           possible != 0;
  } catch (const Error&) {
    return false; // a driver without these functions
  }
}

Device::Shared makeShared(const Context& on, std::size_t bytes) {
  const Current current(on);
  const int device = on.device();
  const Driver& driver = Driver::get();
  const std::size_t whole = wholeUnits(device, bytes);
  const CUmemAllocationProp properties = propertiesOf(device);
  CUmemGenericAllocationHandle made = 0;
  must(driver.create(&made, whole, &properties, 0), "no shared memory on the device");
  const Allocation allocation(made);
  int handle = -1;
  must(driver.exported(&handle, allocation.get(), kHandle, 0), "shared memory has no handle");
  base::UniqueFd owned(handle);
  return {mapOn(device, allocation, whole), std::move(owned)};
}

Memory mapSharedOn(const Context& on, int handle, std::size_t bytes) {
  const Current current(on);
  const int device = on.device();
  CUmemGenericAllocationHandle found = 0;
  must(Driver::get().imported(&found, reinterpret_cast<void*>(static_cast<std::intptr_t>(handle)),
                              kHandle),
       "a peer's memory was not imported");
  const Allocation allocation(found);
  return mapOn(device, allocation, wholeUnits(device, bytes));
}

} // namespace rondo::device
