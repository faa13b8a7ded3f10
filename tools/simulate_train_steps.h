// Turns the steps of a training strategy into tasks, from the values that the trainer itself uses:
// buckets, moves of sharded training, timetables of pipelines, stragglers.
#pragma once

#include <functional>
#include <vector>

#include "model/tasks.h"
#include "rondo/train_options.h"
#include "rondo/types.h"
#include "tools/simulate_train_model.h"

namespace rondo::tools {

/// Seconds of a collective. `bytes`: of all blocks, as `rondo bench` counts them.
using CallTime = std::function<double(Collective collective, double bytes)>;

struct StepQuestion {
  const StepModel& model;
  const TrainOptions& options;
  int ranks = 1;
  int steps = 3; ///< simulated one after the other, so that one step may overlap with the next
  /// The processor that computes also moves the bytes, so that nothing overlaps. Not modelled for
  /// pipelines and parameter servers: their messages overlap with passes.
  bool one_processor = false;
  /// The processor of each rank, if ranks share processors; otherwise empty.
  std::vector<int> processors = {};
  CallTime call;
  std::function<double(int from, int to, double bytes)> message; ///< seconds of one message
};

struct SimulatedSteps {
  model::TaskGraph graph;
  std::vector<std::vector<std::uint32_t>> ends = {}; ///< the last tasks of each step
  int steps_in_each = 1; ///< training steps in one element of `ends`; local: its period
  /// The ranks that are simulated; the first of them stands for all ranks that are not.
  std::vector<int> ranks = {};
};

/// The ranks to simulate. These are all ranks with jitter, in a pipeline, or if they share
/// processors. Otherwise they are the slow ranks, and one that stands for all others.
std::vector<int> differentRanks(const TrainOptions& options, int ranks, bool shared = false);

/// The strategies ddp, local, zero1, zero2, fsdp and pipeline. Throws Error(invalid_argument) for
/// others, and for options that are not simulated.
SimulatedSteps simulatedSteps(const StepQuestion& question);

} // namespace rondo::tools
