// Parses byte counts, rank ranges and comma lists of the command line.
#include "tools/parse.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

#include "rondo/error.h"

namespace rondo::tools {

namespace {

constexpr std::array<std::pair<char, int>, 4> kSuffixes = {
    {{'K', 10}, {'M', 20}, {'G', 30}, {'T', 40}}};

[[noreturn]] void refuse(std::string_view text, const std::string& wanted) {
  throw Error(ErrorCode::invalid_argument, "'" + std::string(text) + "' is not " + wanted);
}

/// Reads the number at the front of `text`, and removes it. Returns false if there is none.
template <class T>
bool takeNumber(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

} // namespace

std::size_t parseBytes(std::string_view text) {
  const std::string wanted = "a number of bytes (such as 8, 64K, 4M or 1G)";
  std::string_view rest = text;
  std::uint64_t value = 0;
  if (!takeNumber(rest, value)) refuse(text, wanted);
  int shift = 0;
  if (!rest.empty()) {
    const char first = static_cast<char>(rest[0] & ~0x20); // upper case
    for (const auto& [letter, bits] : kSuffixes) {
      if (letter == first) shift = bits;
    }
    if (shift != 0) rest.remove_prefix(1);
  }
  if (shift != 0 && (rest == "iB" || rest == "ib")) rest = {};
  if (rest == "B" || rest == "b") rest = {};
  if (!rest.empty()) refuse(text, wanted);
  if (value > (std::numeric_limits<std::uint64_t>::max() >> shift)) refuse(text, wanted);
  return static_cast<std::size_t>(value << shift);
}

std::vector<int> parseRanks(std::string_view text, int limit) {
  const std::string wanted =
      "a list of rank counts from 1 to " + std::to_string(limit) + " (such as 4, 1-64 or 1,2,4-8)";
  std::vector<int> ranks;
  std::string_view rest = text;
  while (true) {
    int first = 0;
    if (!takeNumber(rest, first)) refuse(text, wanted);
    int last = first;
    if (!rest.empty() && rest[0] == '-') {
      rest.remove_prefix(1);
      if (!takeNumber(rest, last)) refuse(text, wanted);
    }
    if (first < 1 || last < first || last > limit) refuse(text, wanted);
    for (int p = first; p <= last; ++p) {
      if (std::find(ranks.begin(), ranks.end(), p) == ranks.end()) ranks.push_back(p);
    }
    if (rest.empty()) return ranks;
    if (rest[0] != ',') refuse(text, wanted);
    rest.remove_prefix(1);
  }
}

std::vector<std::string> splitWords(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    if (end == start) refuse(text, "a list of words separated by commas");
    words.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return words;
}

std::string bytesText(std::size_t bytes) {
  for (auto it = kSuffixes.rbegin(); it != kSuffixes.rend(); ++it) {
    const std::size_t unit = std::size_t{1} << it->second;
    if (bytes != 0 && bytes % unit == 0) return std::to_string(bytes / unit) + it->first;
  }
  return std::to_string(bytes);
}

} // namespace rondo::tools
