// Chooses the algorithm: the user's choice, else the rules file's, else the table's, else the
// rules', else any that can serve the call.
#include "planner/choose.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "planner/rules.h"
#include "planner/rules_file.h"
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

bool needsSwitch(const plan::Choice& choice, plan::Spec spec) {
  spec.multicast = false;
  return !choice.algorithm->supports(choice.applied(spec));
}

/// An algorithm that can serve, though no rule names one.
void withoutRule(const plan::Spec& spec, std::size_t bytes, const Suitability& serves,
                 Decision& made) {
  std::vector<plan::Choice> others;
  for (const plan::Algorithm* algorithm : plan::supporting(spec))
    if (const plan::Choice choice{algorithm, 0}; serves(choice)) others.push_back(choice);
  if (others.empty()) throw Error(ErrorCode::unsupported, "no algorithm serves " + what(spec));
  const bool by_cost = serves.excludes() && bytes != kUneven;
  made.basis.kind = by_cost ? Basis::Kind::cost : Basis::Kind::first;
  made.choice = !by_cost ? others.front()
                         : *std::ranges::min_element(others, {}, [&](const plan::Choice& one) {
                             return one.algorithm->cost(one.applied(spec), plan::Link(),
                                                        static_cast<double>(bytes));
                           });
}

void byRule(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
            const Suitability& serves, Decision& made) {
  Basis& basis = made.basis;
  const auto take = [&](const plan::Choice& choice, Basis::Kind kind, std::size_t up_to) {
    const std::string_view objection = serves.objection(choice);
    if (objection.empty()) {
      made.choice = choice;
      basis.kind = kind;
      basis.up_to = up_to;
    } else if (!basis.instead_of.algorithm) {
      basis.instead_of = choice;
      basis.objection = objection;
    }
    return objection.empty();
  };
  if (composed(spec, bytes, policy) && take({plan::findAlgorithm("hierarchical")},
                                            Basis::Kind::nodes, *composedFrom(spec.collective)))
    return;
  std::size_t excluded = 0; // up to this size of blocks the user excludes what the rules prefer
  for (const Rule& rule : rulesFor(spec.collective, spec.ranks, policy)) {
    if (bytes > rule.up_to) {
      basis.above = std::max(basis.above, rule.up_to);
      continue;
    }
    const plan::Choice choice{plan::findAlgorithm(rule.algorithm), rule.parameter};
    if (!choice.algorithm) continue;
    // The next rule for the same sizes is for deterministic mode, and need not be the next best.
    if (!policy.deterministic && rule.up_to <= excluded) break;
    if (take(choice, Basis::Kind::size, rule.up_to)) return;
    if (serves.excludes(choice) && !needsSwitch(choice, spec)) excluded = rule.up_to;
  }
  withoutRule(spec, bytes, serves, made);
}

/// A decision tells the reasons of so many lines that are passed over, and the number of others.
constexpr int kMostPassedOver = 4;

/// What the first line of the user's rules file says that is for the call and can be followed.
/// Without such a line, the decision has no algorithm.
Decision byRulesFile(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                     const Suitability& serves) {
  Decision made;
  if (!policy.rules_file) return made;
  int passed_over = 0;
  for (const RulesFile::Line& line : policy.rules_file->lines()) {
    if (!line.holds(spec, bytes)) continue;
    const std::string place = policy.rules_file->place(line);
    const std::string_view objection = serves.objection(line.choice);
    if (objection.empty()) {
      made.choice = line.choice;
      made.by = Decision::By::rules_file;
      made.line = place;
      break;
    }
    if (++passed_over <= kMostPassedOver)
      made.passed_over += (passed_over == 1 ? "" : "; ") + place + ": " + line.choice.text() + " " +
                          std::string(objection);
  }
  if (passed_over > kMostPassedOver)
    made.passed_over += "; and " + std::to_string(passed_over - kMostPassedOver) + " more lines";
  return made;
}

} // namespace

Decision decision(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                  plan::PlanCache& plans) {
  const Suitability serves(spec, bytes, policy, plans);
  const bool excludes = plan::excludes(policy.algorithms, spec.collective);
  std::string refused;
  for (const plan::Choice& choice : plan::parseAlgorithms(policy.algorithms, spec.collective)) {
    const std::string_view objection = serves.objection(choice);
    if (objection.empty() && !excludes)
      return {.choice = choice,
              .by = Decision::By::user,
              .variable = plan::variableOf(policy.algorithms)};
    if (objection.empty()) { // the planner chooses among those that are left
      refused.clear();
      break;
    }
    refused += (refused.empty() ? "" : "; ") + choice.text() + " " + std::string(objection);
  }
  if (!refused.empty() && !plan::isWish(policy.algorithms))
    throw Error(ErrorCode::unsupported,
                "the algorithms in RONDO_ALGO (Options::algorithm) cannot serve " + what(spec) +
                    ": " + refused);
  if (!refused.empty() && excludes) {
    Policy free = policy;
    free.algorithms.clear();
    return decision(spec, bytes, free, plans);
  }
  Decision made = byRulesFile(spec, bytes, policy, serves);
  if (made.choice.algorithm) return made;
  const plan::Choice* const predicted =
      policy.table && bytes != kUneven ? policy.table->find(spec.collective, bytes) : nullptr;
  if (predicted && serves(*predicted)) {
    made.by = Decision::By::model;
    made.choice = *predicted;
  } else {
    byRule(spec, bytes, policy, serves, made);
  }
  return made;
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
