// The planner's rules: which algorithms for which sizes, by collective and environment.
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

/// Where several nodes have several ranks, and buffers are in host memory: the size of blocks from
/// which on a composition over nodes is meant before all rules; none if nothing.
std::optional<std::size_t> composedFrom(Collective collective);

/// In ascending order of sizes; of those that are large enough the first that can serve the call
/// is meant. Empty for what has no algorithms.
std::span<const Rule> rulesFor(Collective collective, int ranks, const Policy& policy);

} // namespace rondo::planner
