// Writes plans as GOAL text, the input of the network simulators LogGOPSim and ATLAHS.
#pragma once

#include <string>

#include "model/profile.h"
#include "plan/plan.h"

namespace rondo::tools {

/// The schedule of one call with blocks of `bytes` in a single tile. Each step becomes its
/// receives, a `calc` of its reduction's nanoseconds (of float, by the profile), and its sends;
/// steps of a lane, and steps that wait for each other, follow by `requires`. The tag of a message
/// is its channel's index. Throws Error(unsupported) for plans with barriers or windows, which GOAL
/// cannot express.
std::string goalText(const plan::Algorithm& algorithm, const plan::Spec& spec, double bytes,
                     const model::Profile& profile);

} // namespace rondo::tools
