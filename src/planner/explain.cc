// Predicts all candidates of a call, and puts the reason for the fastest into words.
#include "planner/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "planner/decide.h"
#include "planner/suitability.h"
#include "rondo/error.h"

namespace rondo::planner {

namespace {

using Candidate = Explanation::Candidate;

/// Messages that are simulated of each candidate. More take seconds in all.
constexpr double kMostMessages = 1 << 18;

std::string timeText(double seconds) {
  char text[32];
  const double micro = seconds * 1e6;
  if (micro < 1e3) std::snprintf(text, sizeof text, "%.3g us", micro);
  else std::snprintf(text, sizeof text, "%.3g ms", micro * 1e-3);
  return text;
}

/// The term on which the loser spends most more than the winner: "2 us more on latency".
std::string decidingTerm(const Candidate& winner, const Candidate& loser) {
  const std::array<std::pair<double, const char*>, 4> terms{
      {{loser.latency - winner.latency, "latency"},
       {loser.bytes - winner.bytes, "moving bytes"},
       {loser.reduction - winner.reduction, "reduction"},
       {loser.contention - winner.contention, "contention"}}};
  const auto [seconds, term] = *std::max_element(terms.begin(), terms.end());
  return timeText(seconds) + " more on " + term;
}

std::string whyItWins(const Explanation& made) {
  if (made.candidates.empty()) return "No candidate can be predicted.";
  const Candidate& best = made.candidates[0];
  std::string text = best.algorithm + " is predicted to be the fastest";
  if (made.candidates.size() > 1) {
    const Candidate& second = made.candidates[1];
    text += second.seconds <= best.seconds * (1 + kTie)
                ? ", in a tie with " + second.algorithm
                : ", because " + second.algorithm + " spends " + decidingTerm(best, second);
  }
  if (made.algorithm == best.algorithm) return text + "; the call uses it.";
  const auto used =
      std::find_if(made.candidates.begin(), made.candidates.end(),
                   [&](const Candidate& one) { return one.algorithm == made.algorithm; });
  text += "; the call uses " + made.algorithm;
  if (used == made.candidates.end()) return text + ".";
  if (used->seconds <= best.seconds * (1 + kTie))
    return text + ", which is as fast within the model's error.";
  text += ", which is predicted to take ";
  if (best.seconds > 0)
    text += std::to_string(std::lround(100 * (used->seconds / best.seconds - 1))) + "% ";
  return text + "longer: " + decidingTerm(best, *used) + ".";
}

std::string networkText(const model::Network& network, const plan::Layout& layout) {
  std::string text =
      "profile '" + network.profile->name + "', links " + std::string(name(network.inside));
  if (layout.nodes().size() > 1) text += ", between nodes " + std::string(name(network.between));
  if (network.processors > 0)
    text += ", " + std::to_string(network.processors) + " processors a node";
  return text;
}

/// Adds one candidate to the answers: to all, or to those of calls that use it.
void addCandidate(const plan::Choice& one, const plan::Spec& spec, const model::Network& network,
                  std::span<const Question> questions, bool to_all,
                  std::vector<Explanation>& answers) {
  const std::string name = one.text();
  std::optional<model::Simulation> simulation;
  std::string too_large;
  try {
    simulation.emplace(*one.algorithm, one.applied(spec), network);
  } catch (const model::TooLarge& error) {
    too_large = error.what();
  }
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!to_all && answers[i].algorithm != name) continue;
    try {
      if (!simulation) throw model::TooLarge(too_large);
      const model::Outcome outcome = simulation->estimate(questions[i].blocks, kMostMessages);
      const model::Terms& terms = outcome.terms;
      answers[i].candidates.push_back(
          {name, outcome.seconds, terms.latency, terms.bytes, terms.reduction, terms.contention});
    } catch (const model::TooLarge& error) {
      answers[i].why += " " + name + " is not predicted: " + error.what() + ".";
    }
  }
}

} // namespace

std::vector<Explanation> explain(const plan::Spec& spec, std::span<const Question> questions,
                                 const Policy& policy, const model::Network& network,
                                 plan::PlanCache& plans) {
  std::vector<plan::Choice> choices = candidates(spec);
  const Suitability serves(spec, 0, policy, plans);
  std::erase_if(choices, [&](const plan::Choice& one) { return !serves(one); });
  const std::size_t common = choices.size();
  std::vector<Explanation> answers;
  for (const Question& question : questions) {
    answers.push_back(unexplained(question.decided, ""));
    answers.back().network = networkText(network, spec.layout);
    answers.back().why.clear();
    if (std::none_of(choices.begin(), choices.end(), [&](const plan::Choice& one) {
          return one.text() == answers.back().algorithm;
        }))
      choices.push_back(question.decided.choice);
  }
  for (std::size_t c = 0; c < choices.size(); ++c)
    addCandidate(choices[c], spec, network, questions, c < common, answers);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    Explanation& made = answers[i];
    std::stable_sort(made.candidates.begin(), made.candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    made.why = whyItWins(made) + made.why + unexplained(questions[i].decided, "").why;
  }
  return answers;
}

Explanation explain(const plan::Spec& spec, const model::Blocks& blocks, const Policy& policy,
                    const Decision& decided, const model::Network& network) {
  plan::PlanCache plans(0);
  const Question question{blocks, decided};
  return std::move(explain(spec, {&question, 1}, policy, network, plans).front());
}

Explanation unexplained(const Decision& decided, const std::string& why) {
  const std::string passed_over =
      decided.passed_over.empty() ? "" : " Passed over: " + decided.passed_over + ".";
  return {.algorithm = decided.choice.text(),
          .decided_by = decidedBy(decided),
          .candidates = {},
          .why = why + passed_over,
          .network = {}};
}

std::string_view name(Decision::By by) {
  switch (by) {
    case Decision::By::user: return "user";
    case Decision::By::rules_file: return "rules file";
    case Decision::By::measurement: return "measurement";
    case Decision::By::model: return "model";
    case Decision::By::rules: break;
  }
  return "rules";
}

std::string decidedBy(const Decision& decided) {
  if (decided.by == Decision::By::user) return std::string(decided.variable);
  return std::string(name(decided.by)) + (decided.line.empty() ? "" : " ") + decided.line;
}

} // namespace rondo::planner
