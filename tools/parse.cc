#include "tools/parse.h"

#include <algorithm>
#include <charconv>

#include "rondo/error.h"

namespace rondo::tools {

namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& wanted) {
  throw Error(ErrorCode::invalid_argument, "'" + std::string(text) + "' is not " + wanted);
}

/// Reads the number at the front of `text`, and removes it. Returns false if there is none.
bool takeNumber(std::string_view& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

} // namespace

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

} // namespace rondo::tools
