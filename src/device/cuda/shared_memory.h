// Device memory that other processes can map, made with the driver's virtual memory functions. A
// handle is a file descriptor. The memory exists until every process has released it, in any order.
// No CUDA type appears here.
#pragma once

#include <cstddef>

#include "device/device.h"

namespace rondo::device {

class Context;

/// Whether the driver and the device support this.
bool sharesMemory(int device);
/// Make and map shared memory. They do not zero it and do not wait. Throw Error(system).
Device::Shared makeShared(const Context& on, std::size_t bytes);
Memory mapSharedOn(const Context& on, int handle, std::size_t bytes);

} // namespace rondo::device
