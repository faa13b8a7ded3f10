// Reduction kernels of float16 and bfloat16.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* halfKernel(DataType type, ReduceOp::Kind kind) {
  return type == DataType::float16 ? floatOperator<DataType::float16>(kind)
                                   : floatOperator<DataType::bfloat16>(kind);
}

} // namespace rondo::kernels::cuda
