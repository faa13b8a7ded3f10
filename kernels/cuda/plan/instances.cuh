// The plan kernel for one type and operator. Each family of types instantiates it in its own
// translation unit, so that they compile in parallel.
#pragma once

#include "kernels/cuda/plan/device_block.cuh"
#include "kernels/cuda/plan/families.h"
#include "kernels/cuda/plan/select.h"

namespace rondo::kernels::cuda {

/// Grid: ProgramHeader::blocks(). Shared memory: max_places LiveOperands.
template <DataType kType, ReduceOp::Kind kOp>
__global__ void __launch_bounds__(kPlanThreads, 1)
    planKernel(const __grid_constant__ Launch launch) {
  extern __shared__ std::uint64_t shared[];
  DeviceBlock block(reinterpret_cast<LiveOperand*>(shared));
  PlanKernel<DeviceBlock, kType, kOp>(launch, blockIdx.x, block).run();
}

template <DataType kType>
const void* planKernelOf(ReduceOp::Kind op) {
  return selectOperator<kType>(op, [](auto constant) {
    return reinterpret_cast<const void*>(&planKernel<kType, decltype(constant)::value>);
  });
}

} // namespace rondo::kernels::cuda
