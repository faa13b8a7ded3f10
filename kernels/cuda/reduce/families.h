// Look-up functions of the reduction kernels, one for each family of element types. They return the
// kernel's address as cudaLaunchKernel() takes it, or null if the operator is not defined on the
// type.
#pragma once

#include "rondo/types.h"

namespace rondo::kernels::cuda {

const void* integer8Kernel(DataType type, ReduceOp::Kind kind);
const void* integer16Kernel(DataType type, ReduceOp::Kind kind);
const void* integer32Kernel(DataType type, ReduceOp::Kind kind);
const void* integer64Kernel(DataType type, ReduceOp::Kind kind);
const void* floatKernel(DataType type, ReduceOp::Kind kind); ///< 32 and 64 bits
const void* halfKernel(DataType type, ReduceOp::Kind kind);  ///< 16 bits
const void* float8Kernel(DataType type, ReduceOp::Kind kind);
/// The bitwise operators, on bytes.
const void* bitsKernel(ReduceOp::Kind kind);

} // namespace rondo::kernels::cuda
