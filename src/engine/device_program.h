// Converts a bound plan to the program that the plan kernel runs, and the kernel's report to text.
#pragma once

#include "device/launch.h"
#include "device/program.h"
#include "engine/bound_plan.h"
#include "engine/host_engine.h"
#include "plan/land.h"
#include "plan/lend.h"
#include "plan/plan.h"

namespace rondo::engine {

/// Marks the steps whose messages may be lent.
void lend(BoundPlan& plan, const plan::Lending& lending, int rank);

/// Marks the messages that may land. Steps that send such messages no longer lend. Call after
/// lend().
void land(BoundPlan& plan, const plan::Landing& landing, int rank);

/// Marks the bundles, whose steps the kernel does as one. `plan`: the plan from which `bound` was
/// made, for blocks of one size.
void bundle(BoundPlan& bound, const plan::RankPlan& plan);

/// Converts the plan, which was bound with the rings' slot size, to tables. Channels are numbered
/// as in BoundPlan::ends; each of the `copies` has its own. The header's type and operator select
/// the kernel. Throws Error(unsupported) if the plan is too large for the table indices, or has
/// several lanes with the low-latency protocol.
device::ProgramTables flatten(const BoundPlan& plan, device::Protocol protocol,
                              std::uint32_t copies = 1);

/// Where a launch of the plan was when it ended early.
Position position(const BoundPlan& plan, const device::Report& report);

} // namespace rondo::engine
