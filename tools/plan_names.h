// Names of algorithms, for commands that do not look into plans themselves.
#pragma once

#include <string>
#include <vector>

#include "rondo/types.h"

namespace rondo::tools {

/// Those that can do the collective with so many ranks in a layout ("": nothing known of it).
std::vector<std::string> algorithmsFor(Collective collective, int ranks,
                                       const std::string& layout = "");

/// What --algorithm says: "all", or a comma list of names with an optional "/N". One that needs a
/// layout is taken without one, too: ranks that do not run yet have none.
/// Throws Error(invalid_argument) that lists the names that would do.
std::vector<std::string> parseAlgorithmList(const std::string& text, Collective collective,
                                            int ranks, const std::string& layout = "");

/// "ring, tree, ...": all there are.
std::string allAlgorithmNames();

} // namespace rondo::tools
