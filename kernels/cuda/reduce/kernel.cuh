// The reduction kernel for one type and operator, and the table from operator to kernel of a type.
// Each family of types instantiates it in its own translation unit, so that they compile in
// parallel.
#pragma once

#include "kernels/cuda/reduce/arguments.h"
#include "kernels/cuda/reduce/body.h"
#include "kernels/cuda/reduce/families.h"

namespace rondo::kernels::cuda {

template <DataType kType, ReduceOp::Kind kKind>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    reduceKernel(const __grid_constant__ ReduceArguments arguments) {
  using Grid = Workers<kReduceThreads>;
  const Grid grid{threadIdx.x, blockIdx.x, gridDim.x};
  Reduction<kType, kKind, PlainAccess, Grid, ReduceArguments>(arguments, arguments.count, grid)
      .run();
}

template <DataType kType, ReduceOp::Kind kKind>
const void* kernelOf() {
  return reinterpret_cast<const void*>(&reduceKernel<kType, kKind>);
}

template <DataType kType>
const void* floatOperator(ReduceOp::Kind kind) {
  using Kind = ReduceOp::Kind;
  switch (kind) {
    case Kind::sum: return kernelOf<kType, Kind::sum>();
    case Kind::prod: return kernelOf<kType, Kind::prod>();
    case Kind::min: return kernelOf<kType, Kind::min>();
    case Kind::max: return kernelOf<kType, Kind::max>();
    case Kind::avg: // an average is a sum with the factor 1 / n
    case Kind::premul_sum: return kernelOf<kType, Kind::premul_sum>();
    default: return nullptr;
  }
}

/// Signed and unsigned types share kernels where only low bits matter. The bitwise operators do not
/// depend on the width at all: they use the kernels of uint8 (families.h).
template <DataType kSigned, DataType kUnsigned>
const void* integerOperator(DataType type, ReduceOp::Kind kind) {
  using Kind = ReduceOp::Kind;
  const bool is_signed = type == kSigned;
  switch (kind) {
    case Kind::sum: return kernelOf<kUnsigned, Kind::sum>();
    case Kind::prod: return kernelOf<kUnsigned, Kind::prod>();
    case Kind::min:
      return is_signed ? kernelOf<kSigned, Kind::min>() : kernelOf<kUnsigned, Kind::min>();
    case Kind::max:
      return is_signed ? kernelOf<kSigned, Kind::max>() : kernelOf<kUnsigned, Kind::max>();
    case Kind::avg:
      return is_signed ? kernelOf<kSigned, Kind::avg>() : kernelOf<kUnsigned, Kind::avg>();
    case Kind::premul_sum:
      return is_signed ? kernelOf<kSigned, Kind::premul_sum>()
                       : kernelOf<kUnsigned, Kind::premul_sum>();
    default: return nullptr;
  }
}

} // namespace rondo::kernels::cuda
