// A loss that is not finite ends a run, on all ranks alike.
#pragma once

#include <cstdint>
#include <string>

#include "rondo/communicator.h"

namespace rondo::training {

/// Collective where the loss, which all ranks have alike, is not finite: throws Error(aborted) on
/// all of them, which names the step (the first is 1) and the `layer` of the first rank that has
/// one.
void requireFinite(Communicator& comm, double loss, std::int64_t step, const std::string& layer);

} // namespace rondo::training
