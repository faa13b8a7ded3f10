// Explains calls by predicted times, and names what the rules and the model choose.
#include "tools/plan_explain.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "plan/registry.h"
#include "planner/decide.h"
#include "planner/explain.h"
#include "planner/table.h"
#include "rondo/error.h"
#include "tools/bench/shape.h"
#include "tools/parse.h"
#include "tools/plan_text.h"

namespace rondo::tools {

namespace {

using By = planner::Decision::By;

class Explaining {
 public:
  Explaining(const Comparison& what, const PlannedNetwork& planned)
      : what_(what), network_(planned.network()) {
    if (what.root < 0 || what.root >= what.ranks)
      throw Error(ErrorCode::invalid_argument, "root " + std::to_string(what.root) +
                                                   " is not in 0 to " +
                                                   std::to_string(what.ranks - 1));
    by_rules_ = what.policy;
    if (!plan::excludes(what.policy.algorithms, what.collective)) by_rules_.algorithms.clear();
    by_rules_.rules_file = nullptr;
    by_rules_.table = nullptr;
    by_model_ = by_rules_;
    by_model_.site = {planned.inside, planned.between, planned.processors, 0};
    by_model_.table =
        std::make_shared<planner::Table>(planner::decide(what.ranks, by_model_, planned.profile));
    const auto blocks = static_cast<double>(blocksOfSize(what.collective, what.ranks));
    for (const std::size_t bytes : what.bytes)
      questions_.push_back(
          {{.bytes = static_cast<double>(bytes) / blocks}, decision(bytes, what.policy)});
    answers_ = planner::explain(spec(), questions_, what.policy, network_, plans_);
  }

  std::string text(std::size_t i) const {
    const std::size_t bytes = what_.bytes[i];
    const planner::Decision& decided = questions_[i].decided;
    const Explanation& made = answers_[i];
    Columns columns;
    columns.add({"algorithm", "predicted", "latency", "bytes", "reduction", "contention"});
    for (const Explanation::Candidate& one : made.candidates)
      columns.add({one.algorithm + (one.algorithm == made.algorithm ? " *" : ""),
                   timeText(one.seconds), timeText(one.latency), timeText(one.bytes),
                   timeText(one.reduction), timeText(one.contention)});
    return std::string(name(what_.collective)) + " of " + formatBytes(bytes) + " on " +
           std::to_string(what_.ranks) + " ranks\n\n" + columns.text() + "\n* " + reason(decided) +
           "\n" + made.why + "\n" + otherwise(bytes, decided.by) + ".\n";
  }

  nlohmann::ordered_json json(std::size_t i) const {
    const std::size_t bytes = what_.bytes[i];
    const Explanation& made = answers_[i];
    using Json = nlohmann::ordered_json;
    Json json{{"bytes", bytes},
              {"algorithm", made.algorithm},
              {"decided_by", made.decided_by},
              {"rules", rulesChoice(bytes)},
              {"model", many() ? Json() : Json(modelsChoice(bytes))},
              {"why", made.why},
              {"candidates", nlohmann::ordered_json::array()}};
    for (const Explanation::Candidate& one : made.candidates)
      json["candidates"].push_back({{"algorithm", one.algorithm},
                                    {"seconds", one.seconds},
                                    {"latency", one.latency},
                                    {"bytes", one.bytes},
                                    {"reduction", one.reduction},
                                    {"contention", one.contention}});
    return json;
  }

 private:
  plan::Spec spec() const {
    return {.collective = what_.collective,
            .ranks = what_.ranks,
            .root = what_.root,
            .layout = what_.policy.layout};
  }
  std::size_t block(std::size_t bytes) const {
    return bytes / blocksOfSize(what_.collective, what_.ranks);
  }

  planner::Decision decision(std::size_t bytes, const planner::Policy& policy) const {
    return planner::decision(spec(), block(bytes), policy, plans_);
  }

  /// What is used without the user's choices.
  std::string rulesChoice(std::size_t bytes) const {
    return decision(bytes, by_rules_).choice.text();
  }
  std::string modelsChoice(std::size_t bytes) const {
    return decision(bytes, by_model_).choice.text();
  }

  /// Whether the model leaves calls of so many ranks to the rules.
  bool many() const { return what_.ranks > planner::kMostDecidedRanks; }

  std::string variable() const { return std::string(plan::variableOf(what_.policy.algorithms)); }

  std::string otherwise(std::size_t bytes, By by) const {
    if (many() && by == By::rules)
      return "RONDO_PLANNER=model leaves calls of more than " +
             std::to_string(planner::kMostDecidedRanks) + " ranks to the rules";
    if (what_.policy.table && by != By::user && by != By::rules_file)
      return "With RONDO_PLANNER=rules it would use " + rulesChoice(bytes);
    if (by != By::user && by != By::rules_file)
      return "With RONDO_PLANNER=model it would use " + modelsChoice(bytes);
    const bool has_file = what_.policy.rules_file != nullptr;
    return std::string("Without ") + (by == By::user ? variable() : "") +
           (by == By::user && has_file ? " and " : "") + (has_file ? "the rules file" : "") +
           " it would use " + rulesChoice(bytes) +
           (many() ? "" : ", or with RONDO_PLANNER=model " + modelsChoice(bytes));
  }

  std::string reason(const planner::Decision& decided) const {
    const std::string chosen = decided.choice.text();
    if (decided.by == By::user) return variable() + " chooses " + chosen + ".";
    if (decided.by == By::rules_file)
      return "the planner chooses " + chosen + ", by the rules file: " + decided.line;
    if (decided.by == By::model)
      return "the planner chooses " + chosen + ", by the model (RONDO_PLANNER).";
    return rule(decided);
  }

  /// Why the rules chose the algorithm.
  std::string rule(const planner::Decision& decided) const {
    using enum planner::Basis::Kind;
    const planner::Basis& basis = decided.basis;
    const std::string text = "the planner chooses " + decided.choice.text();
    switch (basis.kind) {
      case nodes:
        return text + ": several nodes have several ranks, and blocks have " +
               formatBytes(basis.up_to) + " or more.";
      case size: return text + ", by the rule for" + sizes(basis) + passedOver(basis) + ".";
      case cost:
        return text + ": " + variable() +
               " excludes what the rules name, and of the other algorithms its formula gives the "
               "shortest time.";
      case none:
      case first: break;
    }
    return text + ": no rule names an algorithm that can serve the call.";
  }

  std::string sizes(const planner::Basis& basis) const {
    std::string text;
    if (what_.policy.oversubscribed) text += " ranks that share processors,";
    if (what_.policy.network_channels) text += " sockets,";
    text += " blocks of";
    const bool last = basis.up_to == ~std::size_t{0};
    if (basis.above > 0) text += " more than " + formatBytes(basis.above);
    if (!last) text += (basis.above > 0 ? " and up to " : " up to ") + formatBytes(basis.up_to);
    return text + (basis.above == 0 && last ? " all sizes" : "");
  }

  static std::string passedOver(const planner::Basis& basis) {
    if (!basis.instead_of.algorithm) return "";
    return "; " + basis.instead_of.text() + " " + std::string(basis.objection);
  }

  const Comparison& what_;
  const model::Network network_;
  planner::Policy by_rules_, by_model_; ///< without RONDO_ALGO and a rules file
  mutable plan::PlanCache plans_{0};
  std::vector<planner::Question> questions_; ///< by size
  std::vector<Explanation> answers_;
};

} // namespace

std::string explainChoice(const Comparison& what, const PlannedNetwork& planned) {
  const Explaining explaining(what, planned);
  std::string text;
  for (std::size_t i = 0; i < what.bytes.size(); ++i)
    text += (text.empty() ? "" : "\n") + explaining.text(i);
  return text + "\nPredicted with " + planned.text(what.policy.layout) + ".\n";
}

std::string explanationJson(const Comparison& what, const PlannedNetwork& planned) {
  const Explaining explaining(what, planned);
  nlohmann::ordered_json json{{"version", 1},
                              {"collective", name(what.collective)},
                              {"ranks", what.ranks},
                              {"network", planned.text(what.policy.layout)},
                              {"calls", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < what.bytes.size(); ++i) json["calls"].push_back(explaining.json(i));
  return json.dump(2) + "\n";
}

} // namespace rondo::tools
