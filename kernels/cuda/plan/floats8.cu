// Plan kernels of 8-bit floats.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* float8Plan(DataType type, ReduceOp::Kind op) {
  return detail::withFloat<1, const void*>(
      type, [op](auto constant) { return planKernelOf<decltype(constant)::value>(op); });
}

} // namespace rondo::kernels::cuda
