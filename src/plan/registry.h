// The list of algorithms, and the grammar of their names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// All algorithms, in the order of algorithms.def.
std::span<const Algorithm* const> algorithms();

/// Null if there is no algorithm of this name.
const Algorithm* findAlgorithm(std::string_view name);

/// An algorithm with the options in its text form: a parameter ("parameter_server/4") and the
/// algorithms that it is composed of ("hierarchical(linear,ring)").
struct Choice {
  const Algorithm* algorithm = nullptr;
  int parameter = 0;
  int inner = 0, outer = 0; ///< see Spec

  std::string text() const;
  /// The spec with this choice's parameter and parts.
  Spec applied(Spec spec) const;
  bool operator==(const Choice&) const = default;
};

/// The algorithms that support the spec with its parameter unchanged.
std::vector<const Algorithm*> supporting(const Spec& spec);

/// Parses one name with an optional "(INNER,OUTER)" and an optional "/N". Throws
/// Error(invalid_argument), which lists the valid names.
Choice parseChoice(std::string_view text);

/// The words of a comma list of choices; commas in brackets do not separate them.
std::vector<std::string_view> choiceWords(std::string_view list);

/// Parses NCCL's grammar (Options::algorithm). Returns the choices allowed for the collective, in
/// order of preference; empty if the text does not restrict it. If the text excludes algorithms
/// ("^ring"), these are all others, in no order of preference. Throws Error(invalid_argument) for
/// unknown words.
std::vector<Choice> parseAlgorithms(std::string_view text, Collective collective);

/// Whether the text excludes algorithms of the collective, rather than naming those to use. Throws
/// the errors of parseAlgorithms().
bool excludes(std::string_view text, Collective collective);

/// Whether the text begins with '?', which makes it a wish: other algorithms serve calls that none
/// of the listed ones can serve. Words for algorithms that only NCCL has, or that cannot do the
/// collective, have no effect.
bool isWish(std::string_view text);
/// The environment variable that this text of Options::algorithm is from.
std::string_view variableOf(std::string_view text);
/// The words of a wish that have no effect, each with the reason; empty if all have an effect.
/// Throws the errors of parseAlgorithms().
std::string passedOver(std::string_view text);

} // namespace rondo::plan
