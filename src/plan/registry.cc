// The table made from algorithms.def, and the grammar of RONDO_ALGO.
#include "plan/registry.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/parse.h"
#include "rondo/error.h"

namespace rondo::algorithms {
#define ALGORITHM(x) extern const plan::Algorithm x;
#include "algorithms/algorithms.def"
#undef ALGORITHM
} // namespace rondo::algorithms

namespace rondo::plan {
namespace {

constexpr auto kAlgorithms = std::to_array<const Algorithm*>({
#define ALGORITHM(x) &algorithms::x,
#include "algorithms/algorithms.def"
#undef ALGORITHM
});

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

std::string inQuotes(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Position of the first separator outside brackets.
std::size_t findOutside(std::string_view text, char separator) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == separator && depth == 0) return i;
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
  }
  return std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = findOutside(text, separator);
    parts.push_back(base::trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// The largest number of ranks that serves() tries on one node, and on two nodes.
constexpr int kTriedRanks = 64, kTriedOnNodes = 16;

/// Whether the algorithm, with the choice's parameters, can do this collective for some number of
/// ranks on one or two nodes. A parameter counts ranks, so larger groups serve a larger one.
bool serves(Choice choice, Collective collective) {
  choice.parameter = std::min(choice.parameter, kTriedOnNodes / 2);
  for (int ranks = 1; ranks <= kTriedRanks; ++ranks) {
    Spec spec = choice.applied({.collective = collective, .ranks = ranks, .multicast = true});
    if (choice.algorithm->supports(spec)) return true;
    if (ranks % 2 != 0 || ranks > kTriedOnNodes) continue;
    spec.layout = parseLayout("2x" + std::to_string(ranks / 2));
    if (choice.algorithm->supports(spec)) return true;
  }
  return false;
}

std::string namesServing(Collective collective) {
  std::string names;
  for (const Algorithm* algorithm : kAlgorithms) {
    if (!serves({algorithm, 0}, collective)) continue;
    if (!names.empty()) names += ", ";
    names += algorithm->name;
  }
  return names;
}

/// Refuses options of an algorithm with which it can do no collective, as in "ring/2".
void checkOptions(const Choice& choice) {
  const auto any = [](const Choice& one) {
    return std::ranges::any_of(kCollectives, [&](Collective c) { return serves(one, c); });
  };
  Choice without = choice;
  without.parameter = 0;
  if (choice.text() == choice.algorithm->name || any(choice)) return;
  refuse("algorithm " + inQuotes(choice.text()) + " can do no collective" +
         (any(without) ? "; without the parameter it can: " + inQuotes(without.text()) : ""));
}

/// Number of a name in the registry, from 1 on.
int numberOf(std::string_view word, std::string_view text) {
  const Algorithm* algorithm = findAlgorithm(lower(word));
  const auto at = std::find(kAlgorithms.begin(), kAlgorithms.end(), algorithm);
  if (at != kAlgorithms.end()) return static_cast<int>(at - kAlgorithms.begin()) + 1;
  std::string names;
  for (const Algorithm* known : kAlgorithms) {
    names += names.empty() ? "" : ", ";
    names += known->name;
  }
  refuse((word.empty() ? "an algorithm's name is missing in " + inQuotes(text)
                       : "unknown algorithm " + inQuotes(word)) +
         "; valid: " + names);
}

/// Algorithms of NCCL for which Rondo has none of the same name.
constexpr std::string_view kNcclOnly[] = {"collnetdirect", "collnetchain", "nvlstree", "pat"};

/// One list of the grammar: "a,b/2" or "^a,b".
struct List {
  bool excludes = false;
  std::vector<Choice> choices;
};

/// The content of a text of the grammar.
struct Lists {
  std::optional<List> general;
  std::map<Collective, List> own; ///< by collective; replaces the general list
  std::string passed_over;        ///< words of a wish without effect

  /// The one that restricts the collective; none also if all its words have no effect.
  std::optional<List> of(Collective collective) const {
    const auto found = own.find(collective);
    std::optional<List> list = found != own.end() ? found->second : general;
    if (list && list->choices.empty()) list.reset();
    return list;
  }
};

class Parser {
 public:
  explicit Parser(std::string_view text) : wish_(isWish(text)) {
    if (wish_) text.remove_prefix(1);
    if (base::trim(text).empty()) return;
    for (const auto section : split(text, ';'))
      if (!section.empty()) parseSection(section); // empty: a trailing ';'
  }
  Lists take() { return std::move(lists_); }

 private:
  void parseSection(std::string_view section) {
    const auto colon = section.find(':');
    if (colon == std::string_view::npos) {
      if (lists_.general)
        refuse("only one list may be without a collective, but " + inQuotes(section) +
               " is another one; write " + inQuotes("allreduce:" + std::string(section)) +
               " for one collective, or separate algorithms by commas");
      lists_.general = parseList(section);
      return;
    }
    const auto word = base::trim(section.substr(0, colon));
    const Collective of = parseCollective(lower(word));
    List list = parseList(base::trim(section.substr(colon + 1)));
    if (!list.excludes)
      std::erase_if(list.choices, [&](const Choice& choice) { return !canDo(choice, of, word); });
    lists_.own[of] = std::move(list);
  }

  List parseList(std::string_view text) {
    List list;
    if (text.starts_with('^')) {
      list.excludes = true;
      text.remove_prefix(1);
    }
    for (const auto word : split(text, ',')) {
      if (wish_ && word.empty()) continue;
      if (wish_ && std::ranges::find(kNcclOnly, lower(word)) != std::end(kNcclOnly)) {
        passOver(inQuotes(word) + " (an algorithm of NCCL that Rondo does not have)");
        continue;
      }
      list.choices.push_back(parseChoice(word));
      checkOptions(list.choices.back());
      if (const Choice& last = list.choices.back();
          list.excludes && last.text() != last.algorithm->name) {
        refuse("'^' excludes an algorithm with all its parameters: write " +
               inQuotes(last.algorithm->name) + " instead of " + inQuotes(word));
      }
    }
    return list;
  }

  bool canDo(const Choice& choice, Collective collective, std::string_view word) {
    if (serves(choice, collective)) return true;
    const std::string what =
        "algorithm " + inQuotes(choice.text()) + " cannot do " + std::string(word);
    const std::string valid = "valid: " + namesServing(collective);
    if (!wish_) refuse(what + "; " + valid);
    passOver(inQuotes(choice.text()) + " for " + std::string(word) + " (it cannot do that; " +
             valid + ")");
    return false;
  }

  void passOver(const std::string& what) {
    lists_.passed_over += (lists_.passed_over.empty() ? "" : ", ") + what;
  }

  const bool wish_;
  Lists lists_;
};

std::vector<Choice> allowed(const List& list, Collective collective) {
  std::vector<Choice> result;
  if (!list.excludes) {
    std::copy_if(list.choices.begin(), list.choices.end(), std::back_inserter(result),
                 [&](const Choice& choice) { return serves(choice, collective); });
    return result;
  }
  for (const Algorithm* algorithm : kAlgorithms) {
    const bool excluded =
        std::any_of(list.choices.begin(), list.choices.end(),
                    [&](const Choice& choice) { return choice.algorithm == algorithm; });
    if (!excluded && serves({algorithm, 0}, collective)) result.push_back({algorithm, 0});
  }
  return result;
}

} // namespace

std::span<const Algorithm* const> algorithms() { return kAlgorithms; }

const Algorithm* findAlgorithm(std::string_view name) {
  const auto at = std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                               [&](const Algorithm* a) { return a->name == name; });
  return at == kAlgorithms.end() ? nullptr : *at;
}

std::string Choice::text() const {
  const auto part = [](int number) {
    return std::string(kAlgorithms[static_cast<std::size_t>(number) - 1]->name);
  };
  std::string text(algorithm->name);
  if (inner != 0) text += "(" + part(inner) + "," + part(outer) + ")";
  return parameter == 0 ? text : text + "/" + std::to_string(parameter);
}

Spec Choice::applied(Spec spec) const {
  spec.parameter = parameter;
  spec.inner = inner;
  spec.outer = outer;
  return spec;
}

std::vector<const Algorithm*> supporting(const Spec& spec) {
  std::vector<const Algorithm*> result;
  std::copy_if(kAlgorithms.begin(), kAlgorithms.end(), std::back_inserter(result),
               [&](const Algorithm* algorithm) { return algorithm->supports(spec); });
  return result;
}

Choice parseChoice(std::string_view text) {
  const auto slash = findOutside(text, '/');
  auto word = base::trim(text.substr(0, slash));
  Choice choice;
  const auto open = word.find('(');
  const std::string_view parts = open == word.npos ? "" : word.substr(open + 1);
  word = base::trim(word.substr(0, open));
  choice.algorithm = kAlgorithms[static_cast<std::size_t>(numberOf(word, text)) - 1];
  if (open != std::string_view::npos) {
    const auto names = split(parts.substr(0, parts.rfind(')')), ',');
    if (!choice.algorithm->composes || !parts.ends_with(')') || names.size() != 2)
      refuse(inQuotes(text) + " should name the algorithms inside and between nodes as in " +
             inQuotes("hierarchical(linear,ring)"));
    choice.inner = numberOf(names[0], text);
    choice.outer = numberOf(names[1], text);
  }
  if (slash != std::string_view::npos) {
    const auto digits = base::trim(text.substr(slash + 1));
    const char* end = digits.data() + digits.size();
    const auto [stop, failure] = std::from_chars(digits.data(), end, choice.parameter);
    if (failure != std::errc{} || stop != end || choice.parameter < 1) {
      refuse("the parameter in " + inQuotes(text) + " must be a whole number from 1 on, as in " +
             inQuotes(std::string(choice.algorithm->name) + "/2"));
    }
  }
  return choice;
}

std::vector<std::string_view> choiceWords(std::string_view list) { return split(list, ','); }

bool isWish(std::string_view text) { return text.starts_with('?'); }

std::string_view variableOf(std::string_view text) {
  return isWish(text) ? "NCCL_ALGO" : "RONDO_ALGO";
}

std::string passedOver(std::string_view text) { return Parser(text).take().passed_over; }

bool excludes(std::string_view text, Collective collective) {
  const std::optional<List> list = Parser(text).take().of(collective);
  return list && list->excludes;
}

std::vector<Choice> parseAlgorithms(std::string_view text, Collective collective) {
  const std::optional<List> list = Parser(text).take().of(collective);
  if (!list) return {};
  auto result = allowed(*list, collective);
  if (result.empty() && list->excludes && !isWish(text) && !namesServing(collective).empty()) {
    refuse("algorithm list " + inQuotes(text) + " leaves none for " +
           std::string(name(collective)) + "; there are: " + namesServing(collective));
  }
  return result;
}

} // namespace rondo::plan
