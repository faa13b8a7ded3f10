// Reduction kernels of 32-bit integers.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* integer32Kernel(DataType type, ReduceOp::Kind kind) {
  return integerOperator<DataType::int32, DataType::uint32>(type, kind);
}

} // namespace rondo::kernels::cuda
