// Plan kernels of 32-bit integers.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* integer32Plan(DataType type, ReduceOp::Kind op) {
  return type == DataType::int32 ? planKernelOf<DataType::int32>(op)
                                 : planKernelOf<DataType::uint32>(op);
}

} // namespace rondo::kernels::cuda
