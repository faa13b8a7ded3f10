// Order interleaved (Narayanan et al., Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM, 2021): interleaved 1F1B. Each of p ranks has v parts of the model.
// The m micro-batches go around the ranks v times, in groups of p.
//
// The k-th forward pass of a rank uses its part (k / p) % v, on micro-batch k % p of group k / (p
// v). Backward passes use the parts from the last to the first. As in 1F1B, rank r begins with
// forward passes only, 2 (p - r - 1) + (v - 1) p of them. Then it does one backward pass after each
// forward pass.
//
// The pipeline fills v times as fast: ranks are idle for (p - 1) / (v m + p - 1) of the time. The
// price is 2 m (v p - 1) messages in place of 2 m (p - 1) (pipeline.cc gives the bytes), and a rank
// holds the activations of 2 (p - r - 1) + (v - 1) p + 1 passes, each through 1/v of its layers.
#include <algorithm>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training::pipelines {

namespace {

int warmUp(const PipelineShape& shape, int rank) {
  return 2 * (shape.stages - rank - 1) + (shape.laps - 1) * shape.stages;
}

int passes(const PipelineShape& shape) { return shape.micro_batches * shape.laps; }

/// The k-th pass of the rank in the direction of `task`.
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
                               .summary = "1f1b with several parts of the model on each rank",
                               .laps = true,
                               .order = order,
                               .in_flight = inFlight,
                               .idle = idle};

} // namespace rondo::training::pipelines
