// Names of algorithms, for commands that do not work with plans.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rondo/types.h"

namespace rondo::tools {

/// Names of the algorithms that support the collective with so many ranks in a layout
/// ("": unknown).
std::vector<std::string> algorithmsFor(Collective collective, int ranks,
                                       const std::string& layout = "");

/// Parses --algorithm: "all", or a comma list of names with an optional "/N". An algorithm that
/// needs a layout is accepted without one, since ranks that do not run yet have none. Throws
/// Error(invalid_argument) that lists the valid names.
std::vector<std::string> parseAlgorithmList(const std::string& text, Collective collective,
                                            int ranks, const std::string& layout = "");

/// Throws Error(invalid_argument) for a text that parseAlgorithmList() takes for no collective.
void checkAlgorithmNames(const std::string& text);

/// Those of the algorithms that do not reduce in rank order, as deterministic mode demands.
std::vector<std::string> notInRankOrder(const std::vector<std::string>& algorithms,
                                        Collective collective, int ranks);

/// "ring, tree, ...": all algorithms.
std::string allAlgorithmNames();
/// The same, one by one.
std::vector<std::string_view> algorithmNames();

} // namespace rondo::tools
