// Devices of the CUDA runtime.
#pragma once

#include <chrono>
#include <memory>

#include "device/device.h"
#include "rondo/options.h"

namespace rondo::device {

/// As openDevice(), where the library was built with CUDA. Its functions that wait for the device
/// throw Error(timeout) if that takes longer than `timeout`; what they had asked of it may still
/// happen, so memory that is freed meanwhile is kept for good.
std::shared_ptr<Device> openCudaDevice(int number,
                                       std::chrono::milliseconds timeout = Options().timeout);

} // namespace rondo::device
