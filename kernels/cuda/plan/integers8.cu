// Plan kernels of 8-bit integers.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* integer8Plan(DataType type, ReduceOp::Kind op) {
  return type == DataType::int8 ? planKernelOf<DataType::int8>(op)
                                : planKernelOf<DataType::uint8>(op);
}

} // namespace rondo::kernels::cuda
