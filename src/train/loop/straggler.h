// Slow ranks, injected: what a strategy is worth shows where ranks are not alike.
#pragma once

#include "rondo/train.h"
#include "train/random.h"

namespace rondo::training {

/// Makes a rank as slow as TrainOptions::pace_ms, slow and jitter say, by sleeping before its
/// steps: a core is left to the other ranks meanwhile.
class Straggler {
 public:
  Straggler(const TrainOptions& options, int rank);

  /// How long the next step waits before it begins, in milliseconds; `last` is this rank's last
  /// one. Which steps are slow depends on seed, rank and how often this was called.
  double next(const TrainTimes& last);
  /// Sleeps so long.
  static void sleep(double milliseconds);

 private:
  const double pace_ms_, factor_;
  const TrainJitter jitter_;
  Random random_;
};

} // namespace rondo::training
