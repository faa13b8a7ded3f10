// Plan kernels of 16-bit floats.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* halfPlan(DataType type, ReduceOp::Kind op) {
  return type == DataType::float16 ? planKernelOf<DataType::float16>(op)
                                   : planKernelOf<DataType::bfloat16>(op);
}

} // namespace rondo::kernels::cuda
