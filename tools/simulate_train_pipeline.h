// Turns the timetable of a pipeline into tasks.
#pragma once

#include "tools/simulate_train_steps.h"

namespace rondo::tools {

/// The steps of one pipeline over all ranks. Throws as training::makeTimetable() does, and
/// Error(invalid_argument) for a model with fewer units than parts.
SimulatedSteps pipelineSteps(const StepQuestion& question);

} // namespace rondo::tools
