// Draws where the time of steps went: a bar with a table, and the timeline of one step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/report/record.h"

namespace rondo::training {

/// The value below which this share of the finite values is; 0 if there are none.
double percentile(std::vector<double> values, double share);

/// Draws the medians of a step's parts as a bar and a table.
std::string breakdownText(const std::vector<StepRecord>& steps);

/// Draws what each rank computed and communicated over time, in the middle one of the observed
/// steps. Empty if no step was observed.
std::string timelineText(const std::vector<TimelineEvent>& events);

} // namespace rondo::training
