// Plan kernels of 8-bit floats.
#include "kernels/cuda/plan/instances.cuh"

namespace rondo::kernels::cuda {

const void* float8Plan(DataType type, ReduceOp::Kind op) {
  return type == DataType::float8e4m3 ? planKernelOf<DataType::float8e4m3>(op)
                                      : planKernelOf<DataType::float8e5m2>(op);
}

} // namespace rondo::kernels::cuda
