// Names of algorithms, for commands that do not look into plans themselves.
#pragma once

#include <string>
#include <vector>

#include "rondo/types.h"

namespace rondo::tools {

/// Those that can do the collective with so many ranks.
std::vector<std::string> algorithmsFor(Collective collective, int ranks);

/// What --algorithm says: "all", or a comma list of names with an optional "/N".
/// Throws Error(invalid_argument) that lists the names that would do.
std::vector<std::string> parseAlgorithmList(const std::string& text, Collective collective,
                                            int ranks);

/// "ring, tree, ...": all there are.
std::string allAlgorithmNames();

} // namespace rondo::tools
