// Reduction kernels of bytes: the bitwise operators of all integers, and the copy of one input.
#include "kernels/cuda/reduce/kernel.cuh"

namespace rondo::kernels::cuda {

const void* bitsKernel(ReduceOp::Kind kind) {
  using Kind = ReduceOp::Kind;
  switch (kind) {
    case Kind::band: return kernelOf<DataType::uint8, Kind::band>();
    case Kind::bor: return kernelOf<DataType::uint8, Kind::bor>();
    case Kind::bxor: return kernelOf<DataType::uint8, Kind::bxor>();
    default: return nullptr;
  }
}

} // namespace rondo::kernels::cuda
