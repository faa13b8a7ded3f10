// Predicts the duration of a timetable's step from the durations of its passes.
#pragma once

#include <vector>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training {

/// Durations of the passes of one micro-batch, by part, in any unit of time.
struct PassCosts {
  std::vector<double> forward, backward;

  /// The same costs for all parts.
  static PassCosts even(const PipelineShape& shape, double forward, double backward);
};

/// When a pass ran.
struct TimedOperation {
  Operation operation;
  double begin, end;
};

struct SimulatedStep {
  std::vector<std::vector<TimedOperation>> ranks; ///< passes only
  double makespan = 0;

  /// The fraction of all ranks' time in which they wait (the bubble).
  double idle() const;
};

/// Assumes that messages take no time and that no sender waits, because stages send asynchronously.
/// Updates take no time. The timetable must satisfy check().
SimulatedStep simulate(const Timetable& timetable, const PassCosts& costs);

} // namespace rondo::training
