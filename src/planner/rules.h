// The planner's rules: which algorithm for which size, by collective and environment.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "planner/choose.h"

namespace rondo::planner {

/// The algorithm for blocks of up to `up_to` bytes.
struct Rule {
  std::size_t up_to = 0;
  std::string_view algorithm;
  int parameter = 0;
};

/// The block size from which a composition over nodes is preferred to all rules, if several nodes
/// have several ranks and buffers are in host memory. None if it is never preferred.
std::optional<std::size_t> composedFrom(Collective collective);

/// The rules in ascending order of sizes. Of those with a sufficient `up_to`, the first that can
/// serve the call is used. Empty for a collective without algorithms.
std::span<const Rule> rulesFor(Collective collective, int ranks, const Policy& policy);

} // namespace rondo::planner
