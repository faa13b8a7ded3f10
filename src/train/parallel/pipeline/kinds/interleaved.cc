// Interleaved 1F1B (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters
// Using Megatron-LM, 2021): each rank has v parts of the model, and micro-batches go round the
// ranks v times, in groups as large as there are ranks.
//
// In the k-th pass forward a rank takes part (k / p) % v of its own, micro-batch k % p of group
// k / (p v); back it takes the parts from the last to the first. As in 1F1B it begins with some
// passes forward, 2 (p - r - 1) + (v - 1) p of them, then does one back for each.
//
// The pipe fills in a v-th of the time: ranks wait (p - 1) / (v m + p - 1) of it. For that
// 2 m (v p - 1) messages are sent in place of 2 m (p - 1), whose bytes pipeline.cc has, and
// activations of 2 (p - r - 1) + (v - 1) p + 1 passes are held, each of a v-th of the layers.
#include <algorithm>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training::pipelines {

namespace {

int warmUp(const PipelineShape& shape, int rank) {
  return 2 * (shape.stages - rank - 1) + (shape.laps - 1) * shape.stages;
}

int passes(const PipelineShape& shape) { return shape.micro_batches * shape.laps; }

/// The rank's k-th pass in this direction.
Operation pass(const PipelineShape& shape, int rank, Task task, int k) {
  const int group = k / shape.parts(), within = k % shape.parts();
  const int lap = within / shape.stages;
  const int own = task == Task::forward ? lap : shape.laps - 1 - lap;
  return {task, group * shape.stages + within % shape.stages, own * shape.stages + rank};
}

std::vector<Operation> order(const PipelineShape& shape, int rank) {
  const int all = passes(shape), warm_up = std::min(all, warmUp(shape, rank));
  std::vector<Operation> list;
  for (int k = 0; k < warm_up; ++k) list.push_back(pass(shape, rank, Task::forward, k));
  for (int k = 0; k < all; ++k) {
    if (warm_up + k < all) list.push_back(pass(shape, rank, Task::forward, warm_up + k));
    list.push_back(pass(shape, rank, Task::backward, k));
  }
  return list;
}

int inFlight(const PipelineShape& shape, int rank) {
  return std::min(passes(shape), warmUp(shape, rank) + 1);
}

double idle(const PipelineShape& shape) {
  return (shape.stages - 1.0) / (passes(shape) + shape.stages - 1.0);
}

} // namespace

extern const PipelineKind interleaved;
const PipelineKind interleaved{.name = "interleaved",
                               .summary = "1f1b over several parts of the model a rank",
                               .laps = true,
                               .order = order,
                               .in_flight = inFlight,
                               .idle = idle};

} // namespace rondo::training::pipelines
