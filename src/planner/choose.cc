// Chooses the algorithm: the user's choice, else the table's, else the rules', else any that can
// serve the call.
#include "planner/choose.h"

#include <string_view>

#include "planner/rules.h"
#include "planner/suitability.h"
#include "planner/table.h"
#include "rondo/error.h"

namespace rondo::planner {

namespace {

std::string what(const plan::Spec& spec) {
  return std::string(name(spec.collective)) + " of " + std::to_string(spec.ranks) + " ranks";
}

/// Whether to compose over nodes: when the time depends on the bytes between the nodes.
bool composed(const plan::Spec& spec, std::size_t bytes, const Policy& policy) {
  const auto from = composedFrom(spec.collective);
  return from && bytes >= *from && bytes != kUneven && !policy.devices && spec.layout.clustered();
}

plan::Choice byRule(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                    const Suitability& serves) {
  if (const plan::Choice choice{plan::findAlgorithm("hierarchical")};
      composed(spec, bytes, policy) && serves(choice))
    return choice;
  for (const Rule& rule : rulesFor(spec.collective, spec.ranks, policy)) {
    if (bytes > rule.up_to) continue;
    if (const plan::Choice choice{plan::findAlgorithm(rule.algorithm), rule.parameter};
        serves(choice))
      return choice;
  }
  for (const plan::Algorithm* algorithm : plan::supporting(spec))
    if (const plan::Choice choice{algorithm, 0}; serves(choice)) return choice;
  throw Error(ErrorCode::unsupported, "no algorithm serves " + what(spec));
}

} // namespace

Decision decision(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                  plan::PlanCache& plans) {
  const Suitability serves(spec, bytes, policy, plans);
  std::string refused;
  for (const plan::Choice& choice : plan::parseAlgorithms(policy.algorithms, spec.collective)) {
    const std::string_view objection = serves.objection(choice);
    if (objection.empty()) return {choice, Decision::By::user};
    refused += (refused.empty() ? "" : "; ") + choice.text() + " " + std::string(objection);
  }
  if (!refused.empty() && !plan::isWish(policy.algorithms))
    throw Error(ErrorCode::unsupported,
                "the algorithms in RONDO_ALGO (Options::algorithm) cannot serve " + what(spec) +
                    ": " + refused);
  if (policy.table && bytes != kUneven)
    if (const plan::Choice* choice = policy.table->find(spec.collective, bytes);
        choice && serves(*choice))
      return {*choice, Decision::By::model};
  return {byRule(spec, bytes, policy, serves), Decision::By::rules};
}

plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                    plan::PlanCache& plans) {
  return decision(spec, bytes, policy, plans).choice;
}

Decision decision(const plan::Spec& spec, std::size_t bytes, const Policy& policy) {
  plan::PlanCache plans(0);
  return decision(spec, bytes, policy, plans);
}

plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy) {
  return decision(spec, bytes, policy).choice;
}

} // namespace rondo::planner
