// Groups of devices whose memory a switch can access at once, made with the driver's multicast
// objects (CUDA 12.1). A handle is a file descriptor, as for other shared memory. No CUDA type
// appears here.
#pragma once

#include <cstddef>
#include <memory>

#include "device/device.h"

namespace rondo::device {

class Context;

/// Whether driver, toolkit and device support this.
bool deviceMulticasts(int device);
/// Throw Error(system), and Error(unsupported) if deviceMulticasts() is false.
std::unique_ptr<Team> makeTeamOn(std::shared_ptr<const Context> on, int devices, std::size_t bytes);
std::unique_ptr<Team> joinTeamOn(std::shared_ptr<const Context> on, int handle, std::size_t bytes);

} // namespace rondo::device
