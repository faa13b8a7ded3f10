// Reads the properties of streams.
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

namespace rondo::device {

/// As Device::traits(), for the current device. `multiprocessors`: of that device.
StreamTraits traitsOf(cudaStream_t stream, int multiprocessors);

} // namespace rondo::device
