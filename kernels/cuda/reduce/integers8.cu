// Reduction kernels of 8-bit integers.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* integer8Kernel(DataType type, ReduceOp::Kind kind) {
  return integerOperator<DataType::int8, DataType::uint8>(type, kind);
}

} // namespace rondo::kernels::cuda
