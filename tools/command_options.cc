// What options have in common: files that a command reads and writes, numbers, names.
#include "tools/command_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/parse.h"
#include "rondo/detail/writable.h"

namespace rondo::tools {

namespace {

bool isEmpty(const std::string& value) { return value.empty(); }

/// The names of validators may follow the type.
bool isOf(const CLI::Option& option, const char* type) {
  return option.get_type_name().starts_with(type);
}

} // namespace

std::string refusedValue(const CLI::App& command) {
  const auto given = command.get_options([](const CLI::Option* one) { return one->count() > 0; });
  std::vector<const CLI::Option*> files;
  for (const CLI::Option* option : given) {
    // The words after `rondo run` belong to a program.
    const bool words = option->get_positional() && option->get_expected_max() > 1;
    if (!words && std::ranges::any_of(option->results(), isEmpty))
      return option->get_name() + ": the value is empty";
    const bool output = isOf(*option, kOutputFile);
    if (!output && !isOf(*option, kInputFile)) continue;
    for (const CLI::Option* other : files) {
      if (!output && !isOf(*other, kOutputFile)) continue;
      if (detail::sameFile(option->results().front(), other->results().front()))
        return other->get_name() + " and " + option->get_name() +
               " name the same file: " + option->results().front();
    }
    files.push_back(option);
  }
  return "";
}

std::string suggestion(std::string_view list, const std::vector<std::string_view>& names) {
  constexpr std::string_view kBetween = ",()/ "; // as in hierarchical(tree,ring)/2
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find_first_of(kBetween));
    list.remove_prefix(std::min(word.size() + 1, list.size()));
    const std::string near(base::nearest(word, names));
    if (!near.empty() && !base::equalIgnoringCase(word, near))
      return "; did you mean " + near + "?";
  }
  return "";
}

} // namespace rondo::tools
