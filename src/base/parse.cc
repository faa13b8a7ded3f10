// Parses and formats values as text.
#include "base/parse.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>
#include <vector>

#include "rondo/error.h"

namespace rondo::base {
namespace {

constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::uint64_t>::max();

bool isDigit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

[[noreturn]] void bad(std::string_view what, std::string_view text, const std::string& wanted) {
  throw Error(ErrorCode::invalid_argument,
              std::string(what) + (what.empty() ? "" : ": ") + quoted(text) + " is not " + wanted);
}

/// Number of digits at the front.
std::size_t digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), isDigit) -
                                  text.begin());
}

/// Stores the value of the digits; returns false if it does not fit.
bool readDigits(std::string_view text, std::uint64_t& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

} // namespace

std::int64_t parseInteger(std::string_view text, std::string_view what, std::int64_t lowest,
                          std::int64_t highest) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < lowest ||
      value > highest) {
    bad(what, text, "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
  return value;
}

std::uint64_t parseBytes(std::string_view text, std::string_view what, std::uint64_t lowest,
                         std::uint64_t highest) {
  auto fail = [&] {
    const bool limited = lowest > 0 || highest < kMaxU64;
    bad(what, text,
        "a number of bytes" +
            (limited ? " from " + formatBytes(lowest) + " to " + formatBytes(highest) : "") +
            " (such as 8, 64K, 4M or 1G)");
  };
  const std::size_t length = digits(text);
  std::uint64_t value = 0;
  if (length == 0 || !readDigits(text.substr(0, length), value)) fail();

  const std::string_view suffix = text.substr(length);
  if (!suffix.empty() && !equalIgnoringCase(suffix, "b")) {
    constexpr std::string_view kUnits = "kmgt";
    const std::size_t unit = kUnits.find(lower(suffix[0]));
    const std::string_view rest = suffix.substr(1);
    const bool spelled =
        rest.empty() || equalIgnoringCase(rest, "b") || equalIgnoringCase(rest, "ib");
    if (unit == std::string_view::npos || !spelled) fail();
    const unsigned shift = 10 * (static_cast<unsigned>(unit) + 1);
    if (value > (kMaxU64 >> shift)) fail();
    value <<= shift;
  }
  if (value < lowest || value > highest) fail();
  return value;
}

std::string formatBytes(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGT";
  std::size_t unit = 0;
  while (unit < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  std::string text = std::to_string(bytes);
  if (unit > 0) text += kUnits[unit - 1];
  return text;
}

std::chrono::milliseconds parseDuration(std::string_view text, std::string_view what,
                                        std::chrono::milliseconds lowest,
                                        std::chrono::milliseconds highest) {
  auto fail = [&] {
    bad(what, text,
        "a duration from " + formatSeconds(lowest) + " to " + formatSeconds(highest) +
            " seconds (fractions allowed; units ms, s, m, h)");
  };
  const std::size_t whole_length = digits(text);
  std::string_view rest = text.substr(whole_length);
  std::string_view fraction;
  if (!rest.empty() && rest[0] == '.') {
    fraction = rest.substr(1, digits(rest.substr(1)));
    rest.remove_prefix(1 + fraction.size());
  }
  if (whole_length == 0 && fraction.empty()) fail();

  std::uint64_t unit = 0; // milliseconds
  if (rest.empty() || equalIgnoringCase(rest, "s")) unit = 1000;
  else if (equalIgnoringCase(rest, "ms")) unit = 1;
  else if (equalIgnoringCase(rest, "m")) unit = 60'000;
  else if (equalIgnoringCase(rest, "h")) unit = 3'600'000;
  else fail();

  std::uint64_t whole = 0;
  if (whole_length > 0 && !readDigits(text.substr(0, whole_length), whole)) fail();
  if (whole > static_cast<std::uint64_t>(highest.count()) / unit) fail();
  // Nine digits are more precise than any rounding here; later digits only round up.
  std::uint64_t parts = 0, scale = 1;
  for (std::size_t i = 0; i < std::min<std::size_t>(fraction.size(), 9); ++i) {
    parts = parts * 10 + static_cast<std::uint64_t>(fraction[i] - '0');
    scale *= 10;
  }
  const bool more = fraction.find_first_not_of('0', 9) != std::string_view::npos;
  const std::uint64_t numerator = parts * unit + (more ? 1 : 0);
  const std::uint64_t value = whole * unit + (numerator + scale - 1) / scale;
  const std::chrono::milliseconds result(static_cast<std::int64_t>(value));
  if (result < lowest || result > highest) fail();
  return result;
}

std::string formatSeconds(std::chrono::milliseconds duration) {
  const bool negative = duration.count() < 0;
  const auto count = static_cast<std::uint64_t>(duration.count());
  const std::uint64_t whole = negative ? 0 - count : count;
  std::string text = (negative ? "-" : "") + std::to_string(whole / 1000);
  if (const auto rest = whole % 1000; rest != 0) {
    std::string fraction = std::to_string(1000 + rest).substr(1);
    fraction.erase(fraction.find_last_not_of('0') + 1);
    text += "." + fraction;
  }
  return text;
}

bool parseFlag(std::string_view text, std::string_view what) {
  for (std::string_view yes : {"1", "true", "yes", "on"}) {
    if (equalIgnoringCase(text, yes)) return true;
  }
  for (std::string_view no : {"0", "false", "no", "off"}) {
    if (equalIgnoringCase(text, no)) return false;
  }
  bad(what, text, "one of 0, 1 (or false, true, no, yes, off, on)");
}

std::vector<std::string> parseList(std::string_view text, std::string_view what, char separator) {
  std::vector<std::string> items;
  if (trim(text).empty()) return items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    const std::string_view item = trim(text.substr(begin, end - begin));
    if (item.empty()) {
      bad(what, text, std::string("a list without empty items, separated by '") + separator + "'");
    }
    items.emplace_back(item);
    begin = end + 1;
  }
  return items;
}

std::vector<int> parseNumbers(std::string_view text, std::string_view what, int highest) {
  std::vector<int> numbers;
  for (const std::string& word : parseList(text, what)) {
    const std::string_view item = word;
    const auto dash = item.find('-');
    const auto first = static_cast<int>(parseInteger(item.substr(0, dash), what, 0, highest));
    const auto last = dash == std::string_view::npos
                          ? first
                          : static_cast<int>(parseInteger(item.substr(dash + 1), what, 0, highest));
    if (last < first) bad(what, text, "ranges that run upwards");
    for (int i = first; i <= last; ++i) numbers.push_back(i);
  }
  return numbers;
}

NameFilter NameFilter::parse(std::string_view text, std::string_view what) {
  NameFilter filter;
  std::string_view list = trim(text);
  if (!list.empty() && list[0] == '^') {
    filter.exclude = true;
    list.remove_prefix(1);
    if (trim(list).empty()) bad(what, text, "a list of names after '^'");
  }
  filter.names = parseList(list, what);
  return filter;
}

bool NameFilter::allows(std::string_view name) const {
  if (names.empty()) return true;
  const bool listed = std::find(names.begin(), names.end(), name) != names.end();
  return listed != exclude;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool equalIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  for (char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      result += c;
    }
  }
  if (text.size() > kLongest) result += "...";
  return result + "\"";
}

namespace {

/// How many letters must be inserted, deleted, changed or swapped with the next one to make the
/// words equal. No letter is edited twice (optimal string alignment).
std::size_t edits(std::string_view a, std::string_view b) {
  // Rows of the table: for the beginning of `a` up to i, and for those one and two letters shorter.
  std::vector<std::size_t> row(b.size() + 1), before(b.size() + 1), earlier;
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    earlier = std::exchange(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto same = [&](std::size_t x, std::size_t y) { return lower(a[x]) == lower(b[y]); };
      const std::size_t change = before[j - 1] + (same(i - 1, j - 1) ? 0 : 1);
      row[j] = std::min({row[j - 1] + 1, before[j] + 1, change});
      if (i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1))
        row[j] = std::min(row[j], earlier[j - 2] + 1);
    }
  }
  return row.back();
}

} // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kShort = 4; // two edits of a word of four letters would be anything
  std::string_view best;
  std::size_t limit = word.size() <= kShort ? 2 : 3;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edits(word, candidate);
    if (distance >= limit) continue;
    limit = distance;
    best = candidate;
  }
  return best;
}

} // namespace rondo::base
