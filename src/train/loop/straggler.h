// Makes ranks slow on purpose, to compare how strategies handle stragglers.
#pragma once

#include "rondo/train.h"
#include "train/random.h"

namespace rondo::training {

/// Makes a rank as slow as TrainOptions::stragglers.pace_ms, slow and jitter say. It sleeps before
/// its steps, so other ranks can use the core in the meantime.
class Straggler {
 public:
  Straggler(const TrainOptions& options, int rank);

  /// Milliseconds that this rank must sleep before its next step; `last` is the times of its last
  /// step. Which steps are slow depends on the seed, the rank and the number of calls.
  double next(const TrainTimes& last);
  /// Sleeps so long.
  static void sleep(double milliseconds);

 private:
  const double pace_ms_, factor_;
  const TrainJitter jitter_;
  Random random_;
};

} // namespace rondo::training
