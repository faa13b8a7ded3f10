// Devices of the CUDA runtime.
#pragma once

#include <chrono>
#include <memory>

#include "device/device.h"

namespace rondo::device {

/// As openDevice(), where the library was built with CUDA.
std::shared_ptr<Device> openCudaDevice(int number, std::chrono::milliseconds timeout);

} // namespace rondo::device
