// Names of algorithms, for commands that do not look into plans themselves.
#include "tools/plan_names.h"

#include "plan/registry.h"
#include "rondo/error.h"
#include "tools/parse.h"

namespace rondo::tools {

std::vector<std::string> algorithmsFor(Collective collective, int ranks) {
  std::vector<std::string> names;
  for (const plan::Algorithm* algorithm : plan::supporting({collective, ranks})) {
    names.emplace_back(algorithm->name);
  }
  return names;
}

std::vector<std::string> parseAlgorithmList(const std::string& text, Collective collective,
                                            int ranks) {
  if (text == "all") return algorithmsFor(collective, ranks);
  std::vector<std::string> names;
  for (const std::string& word : splitWords(text)) {
    const plan::Choice choice = plan::parseChoice(word);
    if (!choice.algorithm->supports({collective, ranks, 0, choice.parameter})) {
      std::string others;
      for (const std::string& other : algorithmsFor(collective, ranks)) others += " " + other;
      throw Error(ErrorCode::invalid_argument,
                  "algorithm '" + word + "' cannot do " + std::string(name(collective)) + " with " +
                      std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
                      "; these can: all" + others);
    }
    names.push_back(choice.text());
  }
  return names;
}

std::string allAlgorithmNames() {
  std::string names;
  for (const plan::Algorithm* algorithm : plan::algorithms()) {
    names += (names.empty() ? "" : ", ") + std::string(algorithm->name);
  }
  return names;
}

} // namespace rondo::tools
