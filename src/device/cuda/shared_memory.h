// Device memory that other processes map, by the driver's virtual memory functions: a handle is a
// file descriptor, and the memory lasts until every process has let go of it, in whatever order. No
// CUDA type appears here.
#pragma once

#include <cstddef>

#include "device/device.h"

namespace rondo::device {

class Context;

/// Whether driver and device can do it.
bool sharesMemory(int device);
/// Neither zeroed nor waited for. Throw Error(system).
Device::Shared makeShared(const Context& on, std::size_t bytes);
Memory mapSharedOn(const Context& on, int handle, std::size_t bytes);

} // namespace rondo::device
