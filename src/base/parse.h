// Parses text into values, in the same way for environment, command line and files.
//
// A parser accepts the whole text or throws Error(invalid_argument); `what` names the value in the
// error text, unless it is empty. Parsers ignore the locale.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::base {

/// Decimal digits with an optional '-'; no '+', no blanks, no fraction.
std::int64_t parseInteger(std::string_view text, std::string_view what,
                          std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                          std::int64_t highest = std::numeric_limits<std::int64_t>::max());

/// A byte count: digits with an optional binary suffix K, M, G or T (any case; "KB" and "KiB" mean
/// the same), or B. "64K" is 65536.
std::uint64_t parseBytes(std::string_view text, std::string_view what = {},
                         std::uint64_t lowest = 0,
                         std::uint64_t highest = std::numeric_limits<std::uint64_t>::max());

/// The shortest form that parseBytes() takes: 65536 is "64K".
std::string formatBytes(std::uint64_t bytes);

/// Seconds with an optional fraction, or a number with a unit: "1.5", "200ms", "2m", "1h". Rounded
/// up to whole milliseconds.
std::chrono::milliseconds parseDuration(
    std::string_view text, std::string_view what,
    std::chrono::milliseconds lowest = std::chrono::milliseconds(0),
    std::chrono::milliseconds highest = std::chrono::hours(24 * 365));

/// The shortest form that parseDuration() takes, in seconds: "120", "0.5".
std::string formatSeconds(std::chrono::milliseconds duration);

/// 0 or 1, also false/true, no/yes, off/on.
bool parseFlag(std::string_view text, std::string_view what);

/// Trimmed items between separators. An empty item is an error; an empty text gives no items.
std::vector<std::string> parseList(std::string_view text, std::string_view what,
                                   char separator = ',');

/// Numbers >= 0 and ranges of them, in the order of the list: "8,0-3" is 8, 0, 1, 2, 3.
std::vector<int> parseNumbers(std::string_view text, std::string_view what, int highest);

/// A list of names that are allowed ("shm,tcp"), or, with a leading '^', forbidden ("^shm"). Empty:
/// all names are allowed.
struct NameFilter {
  bool exclude = false;
  std::vector<std::string> names;

  static NameFilter parse(std::string_view text, std::string_view what);
  bool allows(std::string_view name) const;
};

std::string_view trim(std::string_view text);
/// ASCII only.
bool equalIgnoringCase(std::string_view a, std::string_view b);
/// The text in double quotes, with control characters escaped and cut to 80 characters, for
/// error texts.
std::string quoted(std::string_view text);
// Without these overloads a call with a std::string could also mean std::quoted().
inline std::string quoted(const std::string& text) { return quoted(std::string_view(text)); }
inline std::string quoted(const char* text) { return quoted(std::string_view(text)); }

template <class Names>
std::string join(const Names& names, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& item : names) {
    if (!first) text += separator;
    first = false;
    text += item;
  }
  return text;
}

/// The candidate that needs the fewest edits to be `word`: at most 2, or 1 if the word has up to 4
/// letters. Two neighbouring letters that are swapped are one edit. Empty if there is none.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

} // namespace rondo::base
