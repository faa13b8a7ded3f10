// Converts a bound plan to the program that the plan kernel runs, and the kernel's report to text.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/launch.h"
#include "device/program.h"
#include "engine/bound_plan.h"
#include "engine/host_engine.h"
#include "plan/lend.h"
#include "plan/plan.h"
#include "plan/put.h"

namespace rondo::engine {

/// What a step of a plan is on a device, besides what it is on a host.
struct DeviceStep {
  bool lends = false;             ///< see plan::Lending
  bool written_by_sender = false; ///< see plan::Puts, as the next two
  std::vector<std::uint32_t> address_inputs;
  std::optional<plan::Dependency> announces;
  std::uint32_t bundle = 1;                ///< see plan::Bundles::size()
  bool sums = false;                       ///< see plan::Operand::of_all
  bool to_all = false, is_barrier = false; ///< see plan::Step
};

/// By lane and step of the plan.
using DeviceSteps = std::vector<std::vector<DeviceStep>>;

/// `lending`, `puts`: null if no message is lent, or put. A message that is put is not lent.
/// `bundles`: the kernel does the steps of a bundle as one; only for blocks of one size.
DeviceSteps deviceSteps(const plan::RankPlan& plan, const plan::Lending* lending = nullptr,
                        const plan::Puts* puts = nullptr, bool bundles = false);

/// Converts the plan, which was bound with the rings' slot size, to tables. Channels are numbered
/// as in BoundPlan::ends; each of the `copies` has its own. The header's type and operator select
/// the kernel. Throws Error(unsupported) if the plan is too large for the table indices, or has
/// several lanes with the low-latency protocol.
device::ProgramTables flatten(const BoundPlan& plan, const DeviceSteps& steps,
                              device::Protocol protocol, std::uint32_t copies = 1);

/// Where a launch of the plan was when it ended early.
Position position(const BoundPlan& plan, const device::Report& report);

} // namespace rondo::engine
