// Reduction kernels of fp32 and fp64.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* floatKernel(DataType type, ReduceOp::Kind kind) {
  return type == DataType::float32 ? floatOperator<DataType::float32>(kind)
                                   : floatOperator<DataType::float64>(kind);
}

} // namespace rondo::kernels::cuda
