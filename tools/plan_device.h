// `rondo plan --ranks-per-gpu`: what a collective comes to on GPUs, and the time that it predicts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/device_count.h"
#include "rondo/collectives.h"

namespace rondo::tools {

struct DeviceQuestion {
  Collective collective = Collective::allreduce;
  int ranks = 4, root = 0;
  std::string algorithm;          ///< empty: the planner's choice for each size
  std::vector<std::size_t> bytes; ///< sizes, as the benchmark counts them
  engine::DeviceMachine machine;
  engine::DeviceRates rates;
};

/// A line of names, and one for each size: counts, then microseconds. Words without blanks, so that
/// programs can read it. Throws Error(invalid_argument), Error(unsupported).
std::string deviceTable(const DeviceQuestion& question);

} // namespace rondo::tools
