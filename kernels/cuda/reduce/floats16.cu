// Reduction kernels of float16 and bfloat16.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* halfKernel(DataType type, ReduceOp::Kind kind) {
  return detail::withFloat<2, const void*>(
      type, [kind](auto constant) { return floatOperator<decltype(constant)::value>(kind); });
}

} // namespace rondo::kernels::cuda
