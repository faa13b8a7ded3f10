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

/// An algorithm with the parameter that its written form carries ("parameter_server/4").
struct Choice {
  const Algorithm* algorithm = nullptr;
  int parameter = 0;

  std::string text() const;
};

/// Those that support the spec with its parameter as it stands.
std::vector<const Algorithm*> supporting(const Spec& spec);

/// One name with an optional "/N". Throws Error(invalid_argument) that lists the valid names.
Choice parseChoice(std::string_view text);

/// NCCL's grammar (Options::algorithm): the choices allowed for the collective, in preference
/// order; empty when the text does not restrict it. Throws Error(invalid_argument) for unknown
/// words.
std::vector<Choice> parseAlgorithms(std::string_view text, Collective collective);

} // namespace rondo::plan
