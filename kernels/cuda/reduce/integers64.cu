// Reduction kernels of 64-bit integers.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* integer64Kernel(DataType type, ReduceOp::Kind kind) {
  return integerOperator<DataType::int64, DataType::uint64>(type, kind);
}

} // namespace rondo::kernels::cuda
