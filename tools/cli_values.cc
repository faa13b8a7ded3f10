// Validators of option values. Their errors list the valid values.
#include "tools/cli_values.h"

#include <cmath>
#include <string_view>

#include "rondo/communicator.h"
#include "rondo/error.h"
#include "rondo/transports.h"
#include "tools/command_options.h"
#include "tools/parse.h"
#include "tools/plan_names.h"

namespace rondo::tools {

namespace {

/// A validator that accepts what `parse` accepts, and shows the text of its Error, with the nearest
/// of the names.
template <class Parse>
CLI::Validator validator(const std::string& description, Parse parse,
                         const std::vector<std::string_view>& names = {}) {
  return CLI::Validator(
      [parse, names](std::string& text) -> std::string {
        try {
          parse(text);
          return {};
        } catch (const Error& error) {
          return error.what() + suggestion(text, names);
        }
      },
      description);
}

/// The names of all values of a table.
std::vector<std::string_view> namesOf(const auto& values) {
  std::vector<std::string_view> names;
  for (const auto& value : values) names.push_back(name(value));
  return names;
}

} // namespace

CLI::Validator byteCount() {
  return validator("BYTES", [](const std::string& text) { parseBytes(text); });
}
CLI::Validator byteCounts() { return validator("BYTES,...", parseByteCounts); }

CLI::Validator rankCounts(int limit) {
  return validator("RANKS", [limit](const std::string& text) { parseRanks(text, limit); });
}

CLI::Validator collectives() {
  std::string names;
  for (const Collective collective : kCollectives)
    names += (names.empty() ? "{" : ",") + std::string(name(collective));
  // Replaces an alias by the name.
  return validator(
      names + "}", [](std::string& text) { text = name(parseCollective(text)); },
      namesOf(kCollectives));
}

CLI::Validator dataTypes() { return validator("TYPES", parseDataTypes, namesOf(kDataTypes)); }
CLI::Validator reduceOps() { return validator("OPS", parseReduceOps, namesOf(kReduceOps)); }
CLI::Validator algorithms() { return validator("", checkAlgorithmNames, algorithmNames()); }
CLI::Validator transportNames() {
  std::vector<std::string> names;
  for (const TransportInfo& transport : transports()) names.push_back(transport.name);
  return CLI::IsMember(names);
}
CLI::Validator notNan() {
  return CLI::Validator(
      [](const std::string& text) {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        return number && std::isnan(value) ? "'" + text + "' is no number" : std::string();
      },
      "");
}
std::string transportHelp() {
  std::string text = "default: the fastest of ";
  bool devices = false;
  for (const TransportInfo& transport : transports()) {
    if (transport.between_devices && !devices) {
      devices = true;
      text += "; between GPUs of ";
    }
    text += (text.back() == ' ' ? "" : "; ") + transport.name + " (" +
            (transport.missing.empty() ? transport.summary : transport.missing) + ")";
  }
  return text;
}
bool needsThreads(const std::string& name) {
  for (const TransportInfo& transport : transports())
    if (transport.name == name) return !transport.between_processes;
  return false;
}

std::vector<std::size_t> parseByteCounts(const std::string& text) {
  std::vector<std::size_t> counts;
  for (const std::string& word : splitWords(text)) counts.push_back(parseBytes(word));
  return counts;
}

std::vector<DataType> parseDataTypes(const std::string& text) {
  if (text == "all") return {kDataTypes.begin(), kDataTypes.end()};
  std::vector<DataType> types;
  for (const std::string& word : splitWords(text)) types.push_back(parseDataType(word));
  return types;
}

std::vector<ReduceOp> parseReduceOps(const std::string& text) {
  if (text == "all") return {kReduceOps.begin(), kReduceOps.end()};
  std::vector<ReduceOp> ops;
  for (const std::string& word : splitWords(text)) ops.push_back(parseReduceOp(word));
  return ops;
}

} // namespace rondo::tools
