// Allocations of the driver's virtual memory, and their mappings on devices.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "device/cuda/driver.h"
#include "device/device.h"

namespace rondo::device {

/// The driver's functions for virtual memory, looked up once.
struct MemoryDriver {
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

  static const MemoryDriver& get();
};

/// An allocation, or a multicast object. It exists as long as this object or a mapping of it.
class Allocation {
 public:
  /// Allocates device memory. `bytes` must be a multiple of allocationUnit().
  static Allocation make(int device, std::size_t bytes);
  /// Imports an allocation that another process or rank has exported.
  static Allocation import(int handle);

  explicit Allocation(CUmemGenericAllocationHandle handle) : handle_(handle) {}
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  CUmemGenericAllocationHandle get() const { return handle_; }
  base::UniqueFd exported() const;
  /// Maps the allocation for a device to read and write, until the last owner releases the result.
  /// `unit`: alignment of the address.
  Memory mapOn(int device, std::size_t bytes, std::size_t unit = 0) const;

 private:
  const CUmemGenericAllocationHandle handle_;
};

/// The granularity of the driver's allocations on a device, in bytes.
std::size_t allocationUnit(int device);
inline std::size_t wholeUnits(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

} // namespace rondo::device
