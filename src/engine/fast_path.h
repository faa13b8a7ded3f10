// The fast path of small calls: their steps run without queues, lanes, tiles and loans.
#pragma once

#include <cstddef>

#include "engine/bound_plan.h"
#include "engine/engine.h"

namespace rondo::engine {

/// Messages on the fast path are smaller than this. For larger ones the time saved does not matter.
inline constexpr std::size_t kFastPathBytes = std::size_t{32} << 10;

/// How often a run on the fast path looks for a peer's message before it goes to its queue: 0.2 to
/// 3 us, by processor. Messages between two running ranks arrive sooner.
inline constexpr int kFastPathLooks = 64;

/// Sets BoundPlan::fast_path of a connected and classified plan, if it has one lane and one tile,
/// and its messages go over rings, into slots.
void makeFastPath(BoundPlan& plan);

/// Runs the steps of the fast path from number `at` to number `end` - 1. Returns when all are done,
/// or when more than `looks` polls, counted over all these steps, were in vain. `at` is then the
/// number of the first step that is not done. The run must not be scaled. Throws as
/// HostEngine::progress().
void runFastPath(const Run& run, std::size_t& at, std::size_t end, int looks);

} // namespace rondo::engine
