// Reduction kernels of 16-bit integers.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* integer16Kernel(DataType type, ReduceOp::Kind kind) {
  return integerOperator<DataType::int16, DataType::uint16>(type, kind);
}

} // namespace rondo::kernels::cuda
