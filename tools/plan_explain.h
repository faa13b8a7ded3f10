// `rondo plan --explain`: predicted times by cause, and why the winner wins.
#pragma once

#include <string>

#include "tools/plan_compare.h"
#include "tools/plan_network.h"

namespace rondo::tools {

/// For each size of `what`: the algorithms with their predicted times by term, fastest first; the
/// rule that chose today's algorithm; and one sentence each on why the predicted winner wins, and
/// on whether the rules agree. Throws Error(invalid_argument).
std::string explainChoice(const Comparison& what, const PlannedNetwork& planned);

} // namespace rondo::tools
