// Parses byte counts, rank ranges and comma lists of the command line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::tools {

/// "8", "64K", "4M", "1G": binary suffixes, also in lower case, optionally followed by "B" or "iB".
/// Throws Error(invalid_argument).
std::size_t parseBytes(std::string_view text);

/// "4", "1-64", "1,2,4-8": in the order written, without duplicates. Every number is in [1, limit].
/// Throws Error(invalid_argument).
std::vector<int> parseRanks(std::string_view text, int limit);

/// Splits a comma list into its words. Throws Error(invalid_argument) if a word is empty.
std::vector<std::string> splitWords(std::string_view text);

/// Inverse of parseBytes(): "4M" for round numbers, otherwise digits.
std::string bytesText(std::size_t bytes);

} // namespace rondo::tools
