// Words of the command line: byte counts and rank ranges.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::tools {

/// "8", "64K", "4M", "1G": binary suffixes, also lower case, an optional "B" or "iB" behind.
/// Throws Error(invalid_argument).
std::size_t parseBytes(std::string_view text);

/// "4", "1-64", "1,2,4-8": in the order written, duplicates dropped. Every number lies in
/// [1, limit]. Throws Error(invalid_argument).
std::vector<int> parseRanks(std::string_view text, int limit);

/// The words of a comma list. Throws Error(invalid_argument) for an empty one.
std::vector<std::string> splitWords(std::string_view text);

/// The inverse of parseBytes() for round numbers ("4M"), plain digits otherwise.
std::string bytesText(std::size_t bytes);

} // namespace rondo::tools
