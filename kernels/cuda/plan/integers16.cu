// Plan kernels of 16-bit integers.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* integer16Plan(DataType type, ReduceOp::Kind op) {
  return type == DataType::int16 ? planKernelOf<DataType::int16>(op)
                                 : planKernelOf<DataType::uint16>(op);
}

} // namespace rondo::kernels::cuda
