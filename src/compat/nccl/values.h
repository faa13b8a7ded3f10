// NCCL's types, operators and configurations as Rondo's values.
#pragma once

#include "compat/nccl/nccl_api.h"
#include "rondo/options.h"
#include "rondo/types.h"

namespace rondo::compat::nccl {

/// Throws Refusal(ncclInvalidArgument).
DataType typeOf(ncclDataType_t type);
/// Of NCCL's own operators. Throws Refusal(ncclInvalidArgument).
ReduceOp builtInOperator(ncclRedOp_t op);
/// The element at `scalar`. Throws Refusal(ncclInvalidArgument) for an integer that no double is.
double scalarOf(const void* scalar, DataType type);

/// What is used of an ncclConfig_t.
struct Config {
  bool blocking = true;
};
/// `given` null: `inherited`. Throws Refusal(ncclInvalidArgument) for values that make no sense.
Config configOf(const ncclConfig_t* given, const Config& inherited = {});

/// The settings of the environment. The device: what RONDO_DEVICE says, else the thread's current
/// GPU where there is one, else host memory.
Options optionsOfThread();

} // namespace rondo::compat::nccl
