// Checks before a run that its output files can be written.
#pragma once

#include "rondo/train.h"

namespace rondo::training {

/// Throws Error(system), which names the option and the file, for the first of checkpoint, metrics,
/// trace and report that cannot be written. Changes nothing.
void requireFiles(const TrainOptions& options);

} // namespace rondo::training
