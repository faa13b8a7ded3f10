// Brief plans: those of small calls, whose steps can run without queues, lanes, tiles and loans.
#pragma once

#include <cstddef>

#include "engine/bound_plan.h"
#include "engine/engine.h"

namespace rondo::engine {

/// Messages of brief plans are smaller than this. For larger ones the time saved does not matter.
inline constexpr std::size_t kBriefBytes = std::size_t{32} << 10;

/// How often a brief run looks for a peer before it goes to its queue: about 1 us. Messages between
/// two running ranks arrive sooner.
inline constexpr int kBriefLooks = 64;

/// Sets BoundPlan::brief of a connected and classified plan, if the plan is brief: if it has one
/// lane and one tile, and its messages go over rings, into slots.
void makeBrief(BoundPlan& plan);

/// Runs the steps from number `at` to `end` of a brief plan. Returns when all are done, or when one
/// has to wait for longer than `looks` looks. `at` is then the number of the first step that is not
/// done. The run must not be scaled. Throws as HostEngine::progress().
void runBrief(const Run& run, std::size_t& at, std::size_t end, int looks);

} // namespace rondo::engine
