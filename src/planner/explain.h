// Explains decisions by predicted times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/choose.h"
#include "rondo/explanation.h"

namespace rondo::planner {

/// A call to explain.
struct Question {
  model::Blocks blocks; ///< a barrier has 0 bytes
  Decision decided;
};

/// Answers for calls of several sizes; plans are built once for all. `plans`: see choose(). What
/// the policy forbids is no candidate. The text of `why` names times. Throws
/// Error(invalid_argument) if the profile lacks a kind of link that the ranks use.
std::vector<Explanation> explain(const plan::Spec& spec, std::span<const Question> questions,
                                 const Policy& policy, const model::Network& network,
                                 plan::PlanCache& plans);
/// The same for a single call.
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
