// `rondo plan --explain`: predicted times by cause, and why the winner wins.
#pragma once

#include <string>

#include "tools/plan_compare.h"
#include "tools/plan_network.h"

namespace rondo::tools {

/// For each size of `what`: the candidates with their predicted times by term, fastest first; the
/// rule, or the line of the rules file, that chooses; one sentence on why the fastest wins, and
/// whether the planner agrees; and what the model's table would choose, without a rules file.
/// Throws Error(invalid_argument).
std::string explainChoice(const Comparison& what, const PlannedNetwork& planned);

/// The same as one JSON object: version, collective, ranks, network; and for each size, `calls`:
/// bytes, algorithm, decided_by, the choices of `rules` and `model` without a rules file, why, and
/// candidates with algorithm, and in seconds seconds, latency, bytes, reduction and contention.
std::string explanationJson(const Comparison& what, const PlannedNetwork& planned);

} // namespace rondo::tools
