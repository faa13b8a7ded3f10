// Plan kernels for programs that reduce through the switch between GPUs.
#include "kernels/cuda/plan/switch_block.cuh"

#include "kernels/cuda/plan/families.h"
#include "kernels/cuda/plan/select.h"

namespace rondo::kernels::cuda {

/// Grid and shared memory: as planKernel(). Empty before sm_90, where it is never launched.
template <DataType kType, ReduceOp::Kind kOp>
__global__ void __launch_bounds__(kPlanThreads, 1)
    switchKernel([[maybe_unused]] const __grid_constant__ Launch launch) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ std::uint64_t shared[];
  SwitchBlock block(reinterpret_cast<LiveOperand*>(shared));
  PlanKernel<SwitchBlock, kType, kOp, true>(launch, blockIdx.x, block).run();
#endif
}

__global__ void switchProbeKernel([[maybe_unused]] const __grid_constant__ device::Probe probe) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  probeSwitch<SwitchBlock>(probe, threadIdx.x);
#endif
}

const void* switchProbePlan() { return reinterpret_cast<const void*>(&switchProbeKernel); }

const void* switchPlan(DataType type, ReduceOp::Kind op) {
  return selectSwitched(type, op, [](auto of_type, auto of_op) {
    return reinterpret_cast<const void*>(
        &switchKernel<decltype(of_type)::value, decltype(of_op)::value>);
  });
}

} // namespace rondo::kernels::cuda
