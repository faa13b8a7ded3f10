// Names of algorithms, for commands that do not work with plans.
#include "tools/plan_names.h"

#include "plan/plan_cache.h"
#include "plan/registry.h"
#include "planner/suitability.h"
#include "rondo/error.h"
#include "tools/parse.h"

namespace rondo::tools {

std::vector<std::string> algorithmsFor(Collective collective, int ranks,
                                       const std::string& layout) {
  std::vector<std::string> names;
  const plan::Spec spec{
      .collective = collective, .ranks = ranks, .layout = plan::parseLayout(layout, ranks)};
  for (const plan::Algorithm* algorithm : plan::supporting(spec))
    names.emplace_back(algorithm->name);
  return names;
}

std::vector<std::string> parseAlgorithmList(const std::string& text, Collective collective,
                                            int ranks, const std::string& layout) {
  if (text == "all") return algorithmsFor(collective, ranks, layout);
  // An algorithm that only some machines support may be named here; at run time the ranks find out
  // whether it works.
  const plan::Spec spec{.collective = collective,
                        .ranks = ranks,
                        .layout = plan::parseLayout(layout, ranks),
                        .multicast = true};
  std::vector<std::string> names;
  for (const std::string_view word : plan::choiceWords(text)) {
    const plan::Choice choice = plan::parseChoice(word);
    const bool open = choice.algorithm->composes && layout.empty();
    if (!open && !choice.algorithm->supports(choice.applied(spec))) {
      std::string others;
      for (const std::string& other : algorithmsFor(collective, ranks, layout))
        others += " " + other;
      throw Error(ErrorCode::invalid_argument,
                  "algorithm '" + std::string(word) + "' cannot do " +
                      std::string(name(collective)) + " with " + std::to_string(ranks) +
                      (ranks == 1 ? " rank" : " ranks") +
                      (layout.empty() ? "" : " in layout " + layout) + "; valid: all" + others);
    }
    names.push_back(choice.text());
  }
  return names;
}

void checkAlgorithmNames(const std::string& text) {
  if (text == "all") return;
  for (const std::string_view word : plan::choiceWords(text)) plan::parseChoice(word);
}

std::vector<std::string> notInRankOrder(const std::vector<std::string>& algorithms,
                                        Collective collective, int ranks) {
  const plan::Spec spec{.collective = collective, .ranks = ranks};
  const planner::Policy any, ordered{.deterministic = true};
  plan::PlanCache plans(0);
  const planner::Suitability fits(spec, 0, any, plans), orders(spec, 0, ordered, plans);
  std::vector<std::string> others;
  for (const std::string& word : algorithms) {
    const plan::Choice choice = plan::parseChoice(word);
    if (fits(choice) && !orders(choice)) others.push_back(word);
  }
  return others;
}

std::vector<std::string_view> algorithmNames() {
  std::vector<std::string_view> names;
  for (const plan::Algorithm* algorithm : plan::algorithms()) names.push_back(algorithm->name);
  return names;
}

std::string allAlgorithmNames() {
  std::string names;
  for (const std::string_view name : algorithmNames())
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

} // namespace rondo::tools
