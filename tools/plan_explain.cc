// Simulates all candidates of a call, and compares the fastest with the rules' choice.
#include "tools/plan_explain.h"

#include <algorithm>
#include <utility>

#include "plan/registry.h"
#include "planner/rules.h"
#include "rondo/error.h"
#include "tools/bench/shape.h"
#include "tools/parse.h"
#include "tools/plan_text.h"

namespace rondo::tools {

namespace {

/// Predictions closer than this are a tie: the default profile's median error is 5%.
constexpr double kTie = 0.05;

struct Candidate {
  plan::Choice choice;
  model::Outcome outcome;

  double seconds() const { return outcome.seconds; }
};

struct Part {
  double seconds = 0;
  const char* name = "";
};

/// The term in which the loser spends most more than the winner.
Part decidingTerm(const model::Terms& winner, const model::Terms& loser) {
  const Part parts[] = {{loser.latency - winner.latency, "latency"},
                        {loser.bytes - winner.bytes, "moving bytes"},
                        {loser.reduction - winner.reduction, "reduction"},
                        {loser.contention - winner.contention, "contention"}};
  return *std::max_element(std::begin(parts), std::end(parts),
                           [](const Part& a, const Part& b) { return a.seconds < b.seconds; });
}

class Explaining {
 public:
  Explaining(const Comparison& what, const PlannedNetwork& planned, std::size_t bytes)
      : what_(what),
        planned_(planned),
        bytes_(bytes),
        block_(bytes / blocksOfSize(what.collective, what.ranks)) {
    const plan::Spec spec = specOf({});
    chosen_ = planner::choose(spec, block_, what.policy);
    bool known = false;
    for (const plan::Algorithm* algorithm : plan::supporting(spec)) {
      const plan::Choice choice{algorithm, 0};
      known = known || choice.text() == chosen_.text();
      add(choice);
    }
    if (!known) add(chosen_);
    std::stable_sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.seconds() < b.seconds(); });
  }

  std::string text() const {
    Columns columns;
    columns.add({"algorithm", "predicted", "latency", "bytes", "reduction", "contention"});
    for (const Candidate& candidate : candidates_) {
      const model::Terms& terms = candidate.outcome.terms;
      const bool chosen = candidate.choice.text() == chosen_.text();
      columns.add({candidate.choice.text() + (chosen ? " *" : ""), timeText(candidate.seconds()),
                   timeText(terms.latency), timeText(terms.bytes), timeText(terms.reduction),
                   timeText(terms.contention)});
    }
    return std::string(name(what_.collective)) + " of " + bytesText(bytes_) + " on " +
           std::to_string(what_.ranks) + " ranks\n\n" + columns.text() + "\n* " + rule() + "\n" +
           too_large_ + (candidates_.empty() ? "" : whyItWins() + verdict());
  }

 private:
  plan::Spec specOf(const plan::Choice& choice) const {
    return choice.applied({.collective = what_.collective,
                           .ranks = what_.ranks,
                           .root = what_.root,
                           .layout = what_.policy.layout});
  }

  void add(const plan::Choice& choice) {
    const double block = static_cast<double>(bytes_) /
                         static_cast<double>(blocksOfSize(what_.collective, what_.ranks));
    try {
      candidates_.push_back({choice, model::simulate(*choice.algorithm, specOf(choice),
                                                     {.bytes = block}, planned_.network())});
    } catch (const model::TooLarge& error) {
      too_large_ += choice.text() + " is not predicted: " + error.what() + ".\n";
    }
  }

  const Candidate& best() const { return candidates_.front(); }
  /// The planner's choice; null if it is too large to be simulated.
  const Candidate* chosen() const {
    const auto found = std::find_if(
        candidates_.begin(), candidates_.end(),
        [&](const Candidate& candidate) { return candidate.choice.text() == chosen_.text(); });
    return found == candidates_.end() ? nullptr : &*found;
  }

  /// The rule that chose the algorithm, in words.
  std::string rule() const {
    const planner::Policy& policy = what_.policy;
    const auto from = planner::composedFrom(what_.collective);
    std::string text = "the planner chooses " + chosen_.text();
    if (from && block_ >= *from && policy.layout.clustered())
      return text + ": several nodes have several ranks, and blocks have " + bytesText(*from) +
             " or more.";
    std::size_t above = 0;
    for (const planner::Rule& rule : planner::rulesFor(what_.collective, what_.ranks, policy)) {
      const plan::Choice choice{plan::findAlgorithm(rule.algorithm), rule.parameter};
      if (choice.algorithm && block_ <= rule.up_to && choice.text() == chosen_.text()) {
        text += ", by the rule for";
        if (policy.oversubscribed) text += " ranks that share processors,";
        if (policy.carriers) text += " sockets,";
        text += " blocks of";
        if (above > 0) text += " more than " + bytesText(above);
        const bool last = rule.up_to == ~std::size_t{0};
        if (!last) text += (above > 0 ? " and up to " : " up to ") + bytesText(rule.up_to);
        return text + (above == 0 && last ? " all sizes." : ".");
      }
      if (block_ > rule.up_to) above = rule.up_to;
    }
    return text + ": no rule applies, and it is the first that can serve the call.";
  }

  std::string whyItWins() const {
    const std::string winner = best().choice.text();
    if (candidates_.size() == 1) return winner + " is the only candidate.\n";
    const Candidate& second = candidates_[1];
    const auto [seconds, term] = decidingTerm(best().outcome.terms, second.outcome.terms);
    if (second.seconds() <= best().seconds() * (1 + kTie))
      return "Predicted: " + winner + " and " + second.choice.text() +
             " are equally fast, within the model's error.\n";
    return "Predicted: " + winner + " wins, because " + second.choice.text() + " spends " +
           timeText(seconds) + " more on " + term + ".\n";
  }

  std::string verdict() const {
    if (!chosen()) return {};
    const double loss = chosen()->seconds() / best().seconds() - 1;
    if (loss <= kTie) return "The rules agree.\n";
    const auto [seconds, term] = decidingTerm(best().outcome.terms, chosen()->outcome.terms);
    return "The rules disagree: " + chosen_.text() + " is predicted to take " +
           formatted("%.0f%%", 100 * loss) + " longer, " + timeText(seconds) + " of it on " + term +
           ".\n";
  }

  const Comparison& what_;
  const PlannedNetwork& planned_;
  const std::size_t bytes_, block_;
  plan::Choice chosen_;
  std::vector<Candidate> candidates_;
  std::string too_large_; ///< lines about algorithms that cannot be simulated
};

} // namespace

std::string explainChoice(const Comparison& what, const PlannedNetwork& planned) {
  if (what.root < 0 || what.root >= what.ranks)
    throw Error(
        ErrorCode::invalid_argument,
        "root " + std::to_string(what.root) + " is not in 0 to " + std::to_string(what.ranks - 1));
  std::string text;
  for (const std::size_t bytes : what.bytes)
    text += (text.empty() ? "" : "\n") + Explaining(what, planned, bytes).text();
  return text + "\nPredicted with " + planned.text(what.policy.layout) + ".\n";
}

} // namespace rondo::tools
