// The files that a run writes, before it begins.
#pragma once

#include "rondo/train.h"

namespace rondo::training {

/// Throws Error(system), which names the option and the file, for the first of checkpoint, metrics,
/// trace and report that could not be written. Leaves all as it is.
void requireFiles(const TrainOptions& options);

} // namespace rondo::training
