// Ends a run on all ranks if the loss is not finite.
#pragma once

#include <cstdint>
#include <string>

#include "rondo/communicator.h"

namespace rondo::training {

/// Throws Error(aborted) on all ranks if the loss is not finite. `loss` is the same on all ranks;
/// the function is collective only if it is not finite. The error names the step (the first is 1),
/// and the `layer` of the lowest rank that passes one.
void requireFinite(Communicator& comm, double loss, std::int64_t step, const std::string& layer);

} // namespace rondo::training
