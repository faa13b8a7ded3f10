// Allocates device memory that several processes share.
#include "device/cuda/shared_memory.h"

#include <utility>

#include "device/cuda/current.h"
#include "device/cuda/mapping.h"
#include "rondo/error.h"

namespace rondo::device {

namespace {

/// `bytes`, rounded up to what the device allocates. The process that allocates the memory and
/// those that map it compute the same size, because their devices are of the same kind.
std::size_t wholeBytes(int device, std::size_t bytes) {
  return wholeUnits(bytes, allocationUnit(device));
}

} // namespace

bool sharesMemory(int device) {
  int possible = 0;
  try {
    return MemoryDriver::get().attribute(
               &possible, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
               device) == CUDA_SUCCESS &&
           possible != 0;
  } catch (const Error&) {
    return false; // the driver does not have these functions
  }
}

Device::Shared makeShared(const Context& on, std::size_t bytes) {
  const Current current(on);
  const std::size_t whole = wholeBytes(on.device(), bytes);
  const Allocation allocation = Allocation::make(on.device(), whole);
  base::UniqueFd handle = allocation.exported();
  return {allocation.mapOn(on.device(), whole), std::move(handle)};
}

Memory mapSharedOn(const Context& on, int handle, std::size_t bytes) {
  const Current current(on);
  return Allocation::import(handle).mapOn(on.device(), wholeBytes(on.device(), bytes));
}

} // namespace rondo::device
