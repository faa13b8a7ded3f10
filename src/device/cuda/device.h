// Devices of the CUDA runtime.
#pragma once

#include <memory>

#include "device/device.h"

namespace rondo::device {

/// As openDevice(), where the library was built with CUDA.
std::shared_ptr<Device> openCudaDevice(int number);

} // namespace rondo::device
