// Parses byte counts, rank ranges and comma lists of the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"

namespace rondo::tools {

using base::formatBytes, base::parseBytes;

/// "4", "1-64", "1,2,4-8": in the order written, without duplicates. Every number is in [1, limit].
/// Throws Error(invalid_argument).
std::vector<int> parseRanks(std::string_view text, int limit);

/// Splits a comma list into its words. Throws Error(invalid_argument) if a word is empty.
std::vector<std::string> splitWords(std::string_view text);

} // namespace rondo::tools
