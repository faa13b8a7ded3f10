// Reduction kernels of the 8-bit floats.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* float8Kernel(DataType type, ReduceOp::Kind kind) {
  return detail::withFloat<1, const void*>(
      type, [kind](auto constant) { return floatOperator<decltype(constant)::value>(kind); });
}

} // namespace rondo::kernels::cuda
