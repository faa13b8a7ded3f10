// What a timetable's step takes, from what its passes take.
#pragma once

#include <vector>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training {

/// Of one micro-batch, by part, in any unit of time.
struct PassCosts {
  std::vector<double> forward, backward;

  /// All parts alike.
  static PassCosts even(const PipelineShape& shape, double forward, double backward);
};

/// When an operation ran.
struct TimedOperation {
  Operation operation;
  double begin, end;
};

struct SimulatedStep {
  std::vector<std::vector<TimedOperation>> ranks; ///< passes only
  double makespan = 0;

  /// The share of all ranks' time in which they wait: the bubble.
  double idle() const;
};

/// Messages take no time, and no sender waits: the runner sends asynchronously. Updates count as
/// nothing. The timetable must be without faults, as check() finds them.
SimulatedStep simulate(const Timetable& timetable, const PassCosts& costs);

} // namespace rondo::training
