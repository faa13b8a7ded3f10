// Chooses the algorithm: the user's choice, else the rules, else any that can serve the call.
#include "planner/choose.h"

#include <string_view>

#include "planner/rules.h"
#include "rondo/error.h"

namespace rondo::planner {

namespace {

std::string what(const plan::Spec& spec) {
  return std::string(name(spec.collective)) + " of " + std::to_string(spec.ranks) + " ranks";
}

/// Checks whether an algorithm can serve one call.
class Suitability {
 public:
  Suitability(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
              plan::PlanCache& plans)
      : spec_(spec),
        uneven_(bytes == kUneven),
        ordered_(policy.deterministic && reduces(spec.collective)),
        plans_(plans) {}

  /// The reason why it cannot serve the call; empty if it can.
  std::string_view objection(const plan::Choice& choice) const {
    const plan::Spec spec = choice.applied(spec_);
    if (!choice.algorithm->supports(spec)) return unsupported(choice.algorithm, spec);
    if (!uneven_ && !ordered_) return {};
    plan::Facts& facts = plans_.of(*choice.algorithm, spec).facts;
    if (uneven_ && !facts.servesUneven()) return "does not serve blocks of different sizes";
    if (ordered_ && !facts.inRankOrder())
      return "does not reduce in rank order, as deterministic mode demands";
    return {};
  }
  bool operator()(const plan::Choice& choice) const {
    return choice.algorithm && objection(choice).empty();
  }

 private:
  static std::string_view unsupported(const plan::Algorithm* algorithm, plan::Spec spec) {
    if (spec.multicast) return "does not support it";
    spec.multicast = true;
    return algorithm->supports(spec)
               ? "needs a switch between all ranks' GPUs that was proved when the communicator was "
                 "opened, and that reduces this type by this operator"
               : "does not support it";
  }

  const plan::Spec& spec_;
  const bool uneven_, ordered_;
  plan::PlanCache& plans_;
};

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

plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                    plan::PlanCache& plans) {
  const Suitability serves(spec, bytes, policy, plans);
  std::string refused;
  for (const plan::Choice& choice : plan::parseAlgorithms(policy.algorithms, spec.collective)) {
    const std::string_view objection = serves.objection(choice);
    if (objection.empty()) return choice;
    refused += (refused.empty() ? "" : "; ") + choice.text() + " " + std::string(objection);
  }
  if (!refused.empty() && !plan::isWish(policy.algorithms))
    throw Error(ErrorCode::unsupported,
                "the algorithms in RONDO_ALGO (Options::algorithm) cannot serve " + what(spec) +
                    ": " + refused);
  return byRule(spec, bytes, policy, serves);
}

plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy) {
  plan::PlanCache plans(0);
  return choose(spec, bytes, policy, plans);
}

} // namespace rondo::planner
