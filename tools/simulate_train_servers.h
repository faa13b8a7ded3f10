// Simulates training with parameter servers, with the trainer's own rules of staleness.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/simulate_train_steps.h"

namespace rondo::tools {

/// Something that a rank did, for traces.
struct ServerSpan {
  int rank = 0;
  const char* what = ""; ///< "straggler", "passes", "push", "wait", "pull"
  double begin = 0, end = 0;
};

struct ServedSteps {
  double seconds = 0;          ///< until all steps are done
  double steps = 0;            ///< of a worker; with asp: mean over the workers
  double computed = 0;         ///< seconds of passes of a worker, mean
  double communicated = 0;     ///< seconds in which the servers' links were busy
  std::int64_t most_apart = 0; ///< steps between the first and the last worker, at most
  std::vector<ServerSpan> spans = {};
};

/// Workers push each piece of the gradients (at least 1 MiB) as soon as the backward pass has
/// written it. A server answers a push with all values as soon as they are new enough. A worker has
/// a link to the servers and one from them, whose speed is the mean over the servers. The K servers
/// together have one link each way, K times
/// as fast as a worker's. Workers that share a processor each get an equal part of its time; the
/// servers' updates take none of it. Messages cross a link in the order in which they were sent.
/// Throws Error(invalid_argument) as the strategy's check() does.
ServedSteps servedSteps(const StepQuestion& question);

} // namespace rondo::tools
