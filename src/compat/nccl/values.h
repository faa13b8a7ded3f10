// Converts NCCL's types, operators and configurations to Rondo's values.
#pragma once

#include "compat/nccl/nccl_api.h"
#include "rondo/options.h"
#include "rondo/types.h"

namespace rondo::compat::nccl {

/// Throws Refusal(ncclInvalidArgument).
DataType typeOf(ncclDataType_t type);
/// Converts one of NCCL's built-in operators. Throws Refusal(ncclInvalidArgument).
ReduceOp builtInOperator(ncclRedOp_t op);
/// Reads the element at `scalar`. Throws Refusal(ncclInvalidArgument) for an integer that a double
/// may not represent exactly.
double scalarOf(const void* scalar, DataType type);

/// The fields of an ncclConfig_t that Rondo uses.
struct Config {
  bool blocking = true;
};
/// Returns the defaults if `given` is null. Throws Refusal(ncclInvalidArgument) for values out of
/// range.
Config configOf(const ncclConfig_t* given);

/// The options from the environment. The device is RONDO_DEVICE, else the thread's current GPU if
/// there is one, else host memory.
Options optionsOfThread();

} // namespace rondo::compat::nccl
