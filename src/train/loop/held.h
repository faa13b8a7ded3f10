// What a rank keeps of a run in memory while the ranks change.
#pragma once

#include <vector>

#include "rondo/train.h"
#include "train/loop/resume.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

struct Held {
  bool any = false; ///< false: this rank has made no step, and holds nothing
  Position at;
  TrainReport report;                      ///< of the complete epochs
  std::vector<std::vector<float>> tensors; ///< values of Strategy::held(), in its order
};

/// Copies what the rank holds.
Held hold(const Running& run);

/// Collective, on a new strategy of all ranks: gives every rank the state of the one that is
/// furthest (or the mean of those that have one, if they differ), its position and report. Returns
/// false, and changes nothing, if no rank holds anything.
bool rebuild(Communicator& comm, const Held& own, const Running& run);

} // namespace rondo::training
