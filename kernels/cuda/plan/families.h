// Look-up functions of the plan kernels, one for each family of element types. They return the
// kernel's address as cudaLaunchKernel() takes it.
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
/// For programs with barriers, of any type; null if the switch cannot reduce the type with the
/// operator.
const void* switchPlan(DataType type, ReduceOp::Kind op);
const void* batchPlan();       ///< sends and receives, see batch.cuh
const void* probePlan();       ///< see probe.cuh
const void* switchProbePlan(); ///< see switch.cuh

} // namespace rondo::kernels::cuda
