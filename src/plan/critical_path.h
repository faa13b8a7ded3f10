// How long a plan takes in the alpha-beta model, played through message by message.
#pragma once

#include <span>

#include "plan/plan.h"

namespace rondo::plan {

/// Seconds until all ranks are done, for blocks of `bytes` in a single tile, arithmetic free. Every
/// rank has one line out and one line in. A message that finds both free at time t is there at
/// t + alpha + bytes * beta and keeps each busy for bytes * beta: alpha is latency and keeps
/// nothing busy. Steps run as soon as they can; on a line the first come is the first served.
/// `plans` are those of all ranks, and right (see check.h). Throws as count().
double criticalPath(std::span<const RankPlan> plans, double alpha, double beta, double bytes);

} // namespace rondo::plan
