// Plan kernels of 32- and 64-bit floats.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* floatPlan(DataType type, ReduceOp::Kind op) {
  return type == DataType::float32 ? planKernelOf<DataType::float32>(op)
                                   : planKernelOf<DataType::float64>(op);
}

} // namespace rondo::kernels::cuda
