// From a bound plan to the device program that the plan kernel runs, and from its report to words.
#pragma once

#include "device/launch.h"
#include "device/program.h"
#include "engine/bound_plan.h"
#include "engine/host_engine.h"
#include "plan/land.h"
#include "plan/lend.h"
#include "plan/plan.h"

namespace rondo::engine {

/// Lets the plan's steps lend their messages where they may.
void lend(BoundPlan& plan, const plan::Lending& lending, int rank);

/// Lets messages land where they may; those who send them lend no more. After lend().
void land(BoundPlan& plan, const plan::Landing& landing, int rank);

/// Lets the steps of bundles be done as one. `plan` is what the bound plan was bound from, for
/// blocks of one size.
void bundle(BoundPlan& bound, const plan::RankPlan& plan);

/// The plan, which was bound with the rings' slot size, as tables. Channels are numbered as in
/// BoundPlan::ends; each of the `copies` has its own. Header type and operator name the kernel that
/// serves it. Throws Error(unsupported) when it is too large for its indices, or has several lanes
/// for low_latency.
device::ProgramTables flatten(const BoundPlan& plan, device::Protocol protocol,
                              std::uint32_t copies = 1);

/// Where a launch of the plan was when it ended early.
Position position(const BoundPlan& plan, const device::Report& report);

} // namespace rondo::engine
