// The kernel that tests a link.
#include "kernels/cuda/plan/probe.cuh"

#include "kernels/cuda/plan/device_block.cuh"
#include "kernels/cuda/plan/families.h"

namespace rondo::kernels::cuda {

__global__ void probeKernel(const __grid_constant__ device::Probe probe) {
  probeWord<DeviceBlock>(probe, threadIdx.x);
}

const void* probePlan() { return reinterpret_cast<const void*>(&probeKernel); }

} // namespace rondo::kernels::cuda
