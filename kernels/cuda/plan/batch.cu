// The kernel that runs batches of sends and receives.
#include "kernels/cuda/plan/batch.cuh"

#include "kernels/cuda/plan/device_block.cuh"
#include "kernels/cuda/plan/families.h"

namespace rondo::kernels::cuda {

/// Grid: Batch::blocks().
__global__ void __launch_bounds__(kPlanThreads, 1)
    planBatchKernel(const __grid_constant__ Batch batch) {
  __shared__ alignas(Launch) std::byte launch[sizeof(Launch)];
  __shared__ alignas(LiveOperand) std::byte ends[kJobPlaces * sizeof(LiveOperand)];
  DeviceBlock block(reinterpret_cast<LiveOperand*>(ends));
  runBatch(batch, blockIdx.x, *reinterpret_cast<Launch*>(launch), block);
}

const void* batchPlan() { return reinterpret_cast<const void*>(&planBatchKernel); }

} // namespace rondo::kernels::cuda
