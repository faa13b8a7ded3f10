// Look-up of the plan kernels, one function per family of element types: the kernel's address as
// cudaLaunchKernel() takes it.
#pragma once

#include "rondo/types.h"

namespace rondo::kernels::cuda {

const void* integer8Plan(DataType type, ReduceOp::Kind op);
const void* integer16Plan(DataType type, ReduceOp::Kind op);
const void* integer32Plan(DataType type, ReduceOp::Kind op);
const void* integer64Plan(DataType type, ReduceOp::Kind op);
const void* floatPlan(DataType type, ReduceOp::Kind op); ///< 32 and 64 bits
const void* halfPlan(DataType type, ReduceOp::Kind op);  ///< 16 bits
const void* float8Plan(DataType type, ReduceOp::Kind op);
/// Of programs that meet, any type; null where the switch does not reduce so.
const void* switchPlan(DataType type, ReduceOp::Kind op);
const void* batchPlan();       ///< sends and receives, see batch.cuh
const void* probePlan();       ///< see probe.cuh
const void* switchProbePlan(); ///< see switch.cuh

} // namespace rondo::kernels::cuda
