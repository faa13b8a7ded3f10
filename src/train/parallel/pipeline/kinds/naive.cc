// Order naive: a micro-batch goes forward and backward through all ranks before the next one
// starts, so one rank works at a time.
//
//   rank r: F0 B0 F1 B1 ...
//
// With m micro-batches and p ranks it sends 2 m (p - 1) messages, as every order with one part per
// rank does; pipeline.cc gives the bytes. A rank holds the activations of one micro-batch, and is
// idle for (p - 1) / p of the time. This is plain model parallelism.
#include "train/parallel/pipeline/timetable.h"

namespace rondo::training::pipelines {

namespace {

std::vector<Operation> order(const PipelineShape& shape, int rank) {
  std::vector<Operation> list;
  for (int micro = 0; micro < shape.micro_batches; ++micro) {
    list.push_back({Task::forward, micro, rank});
    list.push_back({Task::backward, micro, rank});
  }
  return list;
}

int inFlight(const PipelineShape&, int) { return 1; }

double idle(const PipelineShape& shape) { return (shape.stages - 1.0) / shape.stages; }

} // namespace

extern const PipelineKind naive;
const PipelineKind naive{.name = "naive",
                         .summary = "one micro-batch at a time",
                         .laps = false,
                         .order = order,
                         .in_flight = inFlight,
                         .idle = idle};

} // namespace rondo::training::pipelines
