// Devices of the CUDA runtime.
#pragma once

#include <memory>

#include "kernels/cuda/runtime.h"

namespace rondo::kernels::cuda {

/// As openDevice(), where the library was built with CUDA.
std::shared_ptr<Device> openCudaDevice(int number);

} // namespace rondo::kernels::cuda
