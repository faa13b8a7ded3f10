// Devices whose memory a switch reaches all at once, by the driver's multicast objects (CUDA 12.1):
// a handle is a file descriptor, as of other shared memory. No CUDA type appears here.
#pragma once

#include <cstddef>
#include <memory>

#include "device/device.h"

namespace rondo::device {

class Context;

/// Whether driver, toolkit and device can do it.
bool deviceMulticasts(int device);
/// Throw Error(system), and Error(unsupported) where deviceMulticasts() says no.
std::unique_ptr<Team> makeTeamOn(std::shared_ptr<const Context> on, int devices, std::size_t bytes);
std::unique_ptr<Team> joinTeamOn(std::shared_ptr<const Context> on, int handle, std::size_t bytes);

} // namespace rondo::device
