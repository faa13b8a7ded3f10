// Explains decisions by predicted times.
#pragma once

#include <string>

#include "planner/choose.h"
#include "rondo/explanation.h"

namespace rondo::planner {

/// `blocks`: the call's; a barrier has 0 bytes. What the policy forbids is no candidate. The text
/// of `why` names times. Throws Error(invalid_argument) if the profile lacks a kind of link that
/// the ranks use.
Explanation explain(const plan::Spec& spec, const model::Blocks& blocks, const Policy& policy,
                    const Decision& decided, const model::Network& network);

/// Why no time is predicted: there is no model of devices, and none of blocks of different sizes.
Explanation unexplained(const Decision& decided, const std::string& why);

/// "user", "rules file", "measurement", "model", "rules".
std::string_view name(Decision::By by);
/// What decided: "rules", or the variable or the line of a rules file that did: "RONDO_ALGO",
/// "NCCL_ALGO", "rules file tuned.csv:3".
std::string decidedBy(const Decision& decided);

} // namespace rondo::planner
