// The algorithms that exist, and the words that name them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// All of algorithms.def, in its order.
std::span<const Algorithm* const> algorithms();

/// Null when there is none of this name.
const Algorithm* findAlgorithm(std::string_view name);

/// An algorithm with what its written form carries: a parameter ("parameter_server/4"), and what it
/// is composed of ("hierarchical(linear,ring)").
struct Choice {
  const Algorithm* algorithm = nullptr;
  int parameter = 0;
  int inner = 0, outer = 0; ///< see Spec

  std::string text() const;
  /// The spec, as this choice is asked to describe it.
  Spec applied(Spec spec) const;
};

/// Those that support the spec with its parameter as it stands.
std::vector<const Algorithm*> supporting(const Spec& spec);

/// One name with an optional "(INNER,OUTER)" and an optional "/N". Throws Error(invalid_argument)
/// that lists the valid names.
Choice parseChoice(std::string_view text);

/// The words of a comma list of choices; commas in brackets do not part them.
std::vector<std::string_view> choiceWords(std::string_view list);

/// NCCL's grammar (Options::algorithm): the choices allowed for the collective, in preference
/// order; empty when the text does not restrict it. Throws Error(invalid_argument) for unknown
/// words.
std::vector<Choice> parseAlgorithms(std::string_view text, Collective collective);

/// Whether the text begins with '?': calls that none of its algorithms can serve are served by
/// others, and words that name an algorithm which only NCCL has, or one that cannot do the
/// collective, have no effect.
bool isWish(std::string_view text);
/// The words of a wish that have no effect, each with the reason; empty: all have.
/// Throws as parseAlgorithms().
std::string passedOver(std::string_view text);

} // namespace rondo::plan
