// Computes a plan's time in the alpha-beta model by simulating its messages.
#pragma once

#include <span>

#include "plan/plan.h"

namespace rondo::plan {

/// Seconds until all ranks are done, for blocks of `bytes` in a single tile; arithmetic costs
/// nothing. Each rank has one outgoing and one incoming line. A message that finds both lines free
/// at time t arrives at t + alpha + bytes * beta and occupies each line for bytes * beta; alpha is
/// latency and occupies nothing. Steps run as soon as they can, and each line serves messages in
/// the order of arrival. `plans`: of all ranks, and right (see check.h). Throws the errors of
/// count().
double criticalPath(std::span<const RankPlan> plans, double alpha, double beta, double bytes);

} // namespace rondo::plan
