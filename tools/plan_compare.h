// Compares the algorithms of a collective: counts, predicted times, and the planner's choice.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planner/choose.h"
#include "tools/plan_network.h"

namespace rondo::tools {

struct Comparison {
  Collective collective = Collective::allreduce;
  int ranks = 4, root = 0;
  std::vector<std::size_t> bytes; ///< sizes, as the benchmark counts them; at least one
  planner::Policy policy;         ///< with the ranks' layout
};

/// Returns a table with a row for each algorithm that supports the collective: what its plans send,
/// and the seconds that a simulation predicts. The fastest for the largest size comes first; the
/// planner's choices are marked. Throws Error(invalid_argument) if no algorithm supports it.
std::string compare(const Comparison& what, const PlannedNetwork& planned);

} // namespace rondo::tools
