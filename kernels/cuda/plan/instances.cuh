// The plan kernel for one type and operator. Each family of types instantiates it in its own
// translation unit, so that they compile in parallel.
#pragma once

#include "kernels/cuda/plan/device_block.cuh"
#include "kernels/cuda/plan/families.h"
#include "kernels/cuda/plan/select.h"
#include "kernels/cuda/plan/staged.cuh"

namespace rondo::kernels::cuda {

/// The block of a launch that may start before the kernel ahead of it has ended, see launch.cu.
class EarlyBlock : public DeviceBlock {
 public:
  using DeviceBlock::DeviceBlock;

  /// Waits until the kernel ahead of this one on the stream has ended and its writes are visible.
  /// That kernel has waited for the one before it, so all earlier kernels have ended.
  __device__ void awaitEarlier() const { asm volatile("griddepcontrol.wait;" : : : "memory"); }
  /// Lets the next kernel of the stream start. Called when the block waits for no other rank any
  /// more: from then on this kernel ends even if the next one occupies all free multiprocessors.
  __device__ void ending() const {
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
  }
};

/// Grid: ProgramHeader::blocks(). Dynamic shared memory: max_places LiveOperands.
template <DataType kType, ReduceOp::Kind kOp>
__global__ void __launch_bounds__(kPlanThreads, 1)
    planKernel(const __grid_constant__ Launch launch) {
  extern __shared__ std::uint64_t shared[];
  auto* const ends = reinterpret_cast<LiveOperand*>(shared);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  __shared__ StagedLaunch<> memory;
  EarlyBlock block(ends);
  const Launch& staged = memory.stage(launch, blockIdx.x, block);
  block.awaitEarlier();
  PlanKernel<EarlyBlock, kType, kOp>(staged, blockIdx.x, block).run();
#else
  DeviceBlock block(ends);
  PlanKernel<DeviceBlock, kType, kOp>(launch, blockIdx.x, block).run();
#endif
}

template <DataType kType>
const void* planKernelOf(ReduceOp::Kind op) {
  return selectOperator<kType>(op, [](auto constant) {
    return reinterpret_cast<const void*>(&planKernel<kType, decltype(constant)::value>);
  });
}

} // namespace rondo::kernels::cuda
