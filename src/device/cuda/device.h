// Opens GPUs through the CUDA runtime.
#pragma once

#include <chrono>
#include <memory>

#include "device/device.h"
#include "rondo/options.h"

namespace rondo::device {

/// As openDevice(), in builds with CUDA. The device's functions that wait throw Error(timeout)
/// after `timeout`. The work that they started may still run then, so the memory that is freed
/// afterwards is never given back.
std::shared_ptr<Device> openCudaDevice(int number,
                                       std::chrono::milliseconds timeout = Options().timeout);

} // namespace rondo::device
