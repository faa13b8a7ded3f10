// `rondo plan --ranks-per-gpu`: what a collective does on GPUs, and its predicted time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/device_count.h"
#include "planner/choose.h"
#include "rondo/collectives.h"

namespace rondo::tools {

struct DeviceQuestion {
  Collective collective = Collective::allreduce;
  int ranks = 4, root = 0;
  std::vector<std::string> algorithms = {}; ///< empty: the planner's choice for each size
  planner::Policy policy = {};              ///< for that choice
  std::vector<std::size_t> bytes;           ///< sizes, as the benchmark counts them
  engine::DeviceMachine machine;
  engine::DeviceRates rates;
};

/// Returns a line of column names and a line for each size and algorithm: counts, then
/// microseconds. No word contains a blank, so that programs can parse it. Throws
/// Error(invalid_argument), Error(unsupported).
std::string deviceTable(const DeviceQuestion& question);

} // namespace rondo::tools
