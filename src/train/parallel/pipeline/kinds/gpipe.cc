// GPipe (Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline
// Parallelism, 2019): all micro-batches forward, then all back.
//
//   rank r: F0 F1 ... Fm-1 B0 B1 ... Bm-1
//
// Sends 2 m (p - 1) messages, as every order with one part a rank does; pipeline.cc has the bytes.
// Holds the activations of all m micro-batches; waits (p - 1) / (m + p - 1) of the time. The paper
// goes back from the last micro-batch to the first. Here gradients are summed from the first to the
// last, in every kind, so that all kinds give the same bits.
#include <algorithm>

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
                         .summary = "all micro-batches forward, then all back",
                         .laps = false,
                         .order = order,
                         .in_flight = inFlight,
                         .idle = idle};

} // namespace rondo::training::pipelines
