// Where the time of steps went: as a bar with a table, and as lanes of one step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/report/record.h"

namespace rondo::training {

/// The value below which this share of the values lies; 0 for none.
double percentile(std::vector<double> values, double share);

/// Medians of the parts of all steps, as a bar and a table.
std::string breakdownText(const std::vector<StepRecord>& steps);

/// What each rank computed and communicated in the middle one of the observed steps, over time.
/// Empty where no step was observed.
std::string timelineText(const std::vector<TimelineEvent>& events);

} // namespace rondo::training
