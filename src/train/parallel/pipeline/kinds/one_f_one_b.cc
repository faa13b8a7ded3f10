// Order 1f1b (Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, 2019,
// with the flush of Memory-Efficient Pipeline-Parallel DNN Training, 2021): a few forward passes
// fill the pipeline. Then a rank does one backward pass after each forward pass.
//
//   rank r: F0 ... Fw-1 | Fw B0 Fw+1 B1 ... | Bm-w ... Bm-1, with w = min(m, p - r - 1)
//
// With m micro-batches and p ranks it sends 2 m (p - 1) messages, as every order with one part per
// rank does; pipeline.cc gives the bytes. A rank holds the activations of at most p - r
// micro-batches, for any m. It is idle for (p - 1) / (m + p - 1) of the time, as with GPipe.
#include <algorithm>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::training::pipelines {

namespace {

std::vector<Operation> order(const PipelineShape& shape, int rank) {
  const int warm_up = std::min(shape.micro_batches, shape.stages - rank - 1);
  std::vector<Operation> list;
  for (int micro = 0; micro < warm_up; ++micro) list.push_back({Task::forward, micro, rank});
  for (int micro = 0; micro < shape.micro_batches; ++micro) {
    if (warm_up + micro < shape.micro_batches)
      list.push_back({Task::forward, warm_up + micro, rank});
    list.push_back({Task::backward, micro, rank});
  }
  return list;
}

int inFlight(const PipelineShape& shape, int rank) {
  return std::min(shape.micro_batches, shape.stages - rank);
}

double idle(const PipelineShape& shape) {
  return (shape.stages - 1.0) / (shape.micro_batches + shape.stages - 1.0);
}

} // namespace

extern const PipelineKind one_f_one_b;
const PipelineKind one_f_one_b{
    .name = "1f1b",
    .summary = "alternates forward and backward passes once the pipeline is full",
    .laps = false,
    .order = order,
    .in_flight = inFlight,
    .idle = idle};

} // namespace rondo::training::pipelines
