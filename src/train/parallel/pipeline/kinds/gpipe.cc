// Order gpipe (Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline
// Parallelism, 2019): all micro-batches forward, then all backward.
//
//   rank r: F0 F1 ... Fm-1 B0 B1 ... Bm-1
//
// With m micro-batches and p ranks it sends 2 m (p - 1) messages, as every order with one part per
// rank does; pipeline.cc gives the bytes. A rank holds the activations of all m micro-batches, and
// is idle for (p - 1) / (m + p - 1) of the time. The paper runs the backward passes from the last
// micro-batch to the first. Here every order sums gradients from the first micro-batch to the last,
// so that all orders give the same bits.

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training::pipelines {

namespace {

std::vector<Operation> order(const PipelineShape& shape, int rank) {
  std::vector<Operation> list;
  for (const Task task : {Task::forward, Task::backward})
    for (int micro = 0; micro < shape.micro_batches; ++micro) list.push_back({task, micro, rank});
  return list;
}

int inFlight(const PipelineShape& shape, int) { return shape.micro_batches; }

double idle(const PipelineShape& shape) {
  return (shape.stages - 1.0) / (shape.micro_batches + shape.stages - 1.0);
}

} // namespace

extern const PipelineKind gpipe;
const PipelineKind gpipe{.name = "gpipe",
                         .summary = "all micro-batches forward, then all backward",
                         .laps = false,
                         .order = order,
                         .in_flight = inFlight,
                         .idle = idle};

} // namespace rondo::training::pipelines
