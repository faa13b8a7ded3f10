// The algorithms of a collective side by side: counted, predicted, chosen.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planner/choose.h"

namespace rondo::tools {

struct Comparison {
  Collective collective = Collective::allreduce;
  int ranks = 4, root = 0;
  std::vector<std::size_t> bytes; ///< sizes, as the benchmark counts them; one at least
  planner::Policy policy;         ///< with the ranks' layout
};

/// A row for each algorithm that supports it, the fastest for the largest size first: what its
/// plans send, and the seconds that Algorithm::cost() predicts; the planner's choice is marked.
/// Throws Error(invalid_argument) when nothing does this.
std::string compare(const Comparison& what);

} // namespace rondo::tools
