// Plan kernels of 16-bit floats.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* halfPlan(DataType type, ReduceOp::Kind op) {
  return detail::withFloat<2, const void*>(
      type, [op](auto constant) { return planKernelOf<decltype(constant)::value>(op); });
}

} // namespace rondo::kernels::cuda
