// The kernel that runs batches, and its launch.
#include "kernels/cuda/plan_batch.cuh"

#include "kernels/cuda/device_block.cuh"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/plan_launch.h"

namespace rondo::kernels::cuda {

/// Grid: Batch::blocks().
__global__ void __launch_bounds__(kPlanThreads, 1)
    planBatchKernel(const __grid_constant__ Batch batch) {
  __shared__ alignas(Launch) std::byte launch[sizeof(Launch)];
  __shared__ alignas(End) std::byte ends[kJobPlaces * sizeof(End)];
  DeviceBlock block(reinterpret_cast<End*>(ends));
  runBatch(batch, blockIdx.x, *reinterpret_cast<Launch*>(launch), block);
}

PlanBatchFunction::PlanBatchFunction()
    : resident_(residentBlocks(reinterpret_cast<const void*>(&planBatchKernel), kPlanThreads, 0)) {}

void PlanBatchFunction::launch(const Batch& batch, Stream stream) const {
  checkResident(batch.blocks(), resident_);
  void* parameters[] = {const_cast<Batch*>(&batch)};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(&planBatchKernel), dim3(batch.blocks()),
                         dim3(kPlanThreads), parameters, 0, static_cast<cudaStream_t>(stream)),
        "sends and receives were not launched");
}

} // namespace rondo::kernels::cuda
