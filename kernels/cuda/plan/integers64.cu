// Plan kernels of 64-bit integers.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* integer64Plan(DataType type, ReduceOp::Kind op) {
  return type == DataType::int64 ? planKernelOf<DataType::int64>(op)
                                 : planKernelOf<DataType::uint64>(op);
}

} // namespace rondo::kernels::cuda
