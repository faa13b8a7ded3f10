// Reduction kernels of the 8-bit floats.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* float8Kernel(DataType type, ReduceOp::Kind kind) {
  return type == DataType::float8e4m3 ? floatOperator<DataType::float8e4m3>(kind)
                                      : floatOperator<DataType::float8e5m2>(kind);
}

} // namespace rondo::kernels::cuda
