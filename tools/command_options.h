// What options have in common: files that a command reads and writes, numbers, names.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::tools {

/// Types that `--help` shows for options whose value is a file. A command does not run if one of
/// its outputs is another of its files.
inline constexpr const char* kInputFile = "INPUT-FILE";
inline constexpr const char* kOutputFile = "OUTPUT-FILE";

/// Why the parsed values of the command are refused: one is empty, or an output is another file of
/// the command. Empty: they are good.
std::string refusedValue(const CLI::App& command);

/// "; did you mean ring?" for the first word of a list that is no name but is near to one; else
/// an empty text.
std::string suggestion(std::string_view list, const std::vector<std::string_view>& names);

/// Accepts a whole number from `least` to `most`. (CLI11 takes -1 for the largest unsigned number,
/// and cuts numbers that are too large.)
template <class Number>
CLI::Validator wholeNumber(Number least = std::numeric_limits<Number>::min(),
                           Number most = std::numeric_limits<Number>::max()) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        Number value{};
        const char* const last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data(), last, value);
        if (error == std::errc{} && end == last && value >= least && value <= most) return {};
        return "'" + text + "' is no whole number from " + std::to_string(least) + " to " +
               std::to_string(most);
      },
      "");
}

} // namespace rondo::tools
