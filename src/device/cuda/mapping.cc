// Wraps the driver's virtual memory functions: each handle and mapping has an owner.
#include "device/cuda/mapping.h"

#include <fcntl.h>

#include <cstdint>

#include "device/cuda/current.h"
#include "rondo/error.h"

namespace rondo::device {

namespace {

constexpr CUmemAllocationHandleType kHandle = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAllocationProp propertiesOf(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = kHandle;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

class Mapping {
 public:
  Mapping(int device, CUmemGenericAllocationHandle allocation, std::size_t bytes, std::size_t unit)
      : context_(Context::of(device)), bytes_(bytes) {
    const MemoryDriver& driver = MemoryDriver::get();
    must(driver.reserve(&address_, bytes, unit, 0, 0),
         "cannot reserve addresses for shared memory");
    CUresult result = driver.map(address_, bytes, 0, allocation, 0);
    mapped_ = result == CUDA_SUCCESS;
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device},
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (mapped_) result = driver.access(address_, bytes, &access, 1);
    if (result == CUDA_SUCCESS) return;
    unmap();
    must(result, "cannot map shared memory");
  }
  ~Mapping() {
    if (!context_->stuck()) unmap();
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* data() const {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address_));
  }

 private:
  void unmap() {
    const MemoryDriver& driver = MemoryDriver::get();
    if (mapped_) driver.unmap(address_, bytes_);
    driver.unreserve(address_, bytes_);
  }

  const std::shared_ptr<const Context> context_;
  const std::size_t bytes_;
  CUdeviceptr address_ = 0;
  bool mapped_ = false;
};

} // namespace

const MemoryDriver& MemoryDriver::get() {
  static const MemoryDriver one;
  return one;
}

Allocation::~Allocation() { MemoryDriver::get().release(handle_); }

Allocation Allocation::make(int device, std::size_t bytes) {
  const CUmemAllocationProp properties = propertiesOf(device);
  CUmemGenericAllocationHandle made = 0;
  must(MemoryDriver::get().create(&made, bytes, &properties, 0),
       "cannot allocate shared memory on the device");
  return Allocation(made);
}

Allocation Allocation::import(int handle) {
  CUmemGenericAllocationHandle found = 0;
  must(MemoryDriver::get().imported(
           &found, reinterpret_cast<void*>(static_cast<std::intptr_t>(handle)), kHandle),
       "cannot import a peer's memory");
  return Allocation(found);
}

base::UniqueFd Allocation::exported() const {
  int handle = -1;
  must(MemoryDriver::get().exported(&handle, handle_, kHandle, 0), "cannot export shared memory");
  ::fcntl(handle, F_SETFD, FD_CLOEXEC);
  return base::UniqueFd(handle);
}

Memory Allocation::mapOn(int device, std::size_t bytes, std::size_t unit) const {
  const auto mapping = std::make_shared<Mapping>(device, handle_, bytes, unit);
  return {mapping, mapping->data()};
}

std::size_t allocationUnit(int device) {
  const CUmemAllocationProp properties = propertiesOf(device);
  std::size_t unit = 0;
  must(MemoryDriver::get().granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
       "cannot read the granularity of shared memory");
  return unit;
}

} // namespace rondo::device
