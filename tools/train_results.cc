#include "tools/train_results.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/read_file.h"
#include "rondo/detail/writable.h"
#include "rondo/error.h"
#include "tools/bench/json.h"
#include "tools/version.h"

namespace rondo::tools {

namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json jsonOf(const SweepResult& result) {
  const TrainSweepRun& run = result.run;
  return {{"name", run.name},
          {"settings", run.settings},
          {"ranks", run.ranks},
          {"epoch_seconds", run.seconds},
          {"epoch_accuracy", run.accuracy},
          {"epoch_noise_scale", run.noise_scale},
          {"parameter_hash", result.parameter_hash},
          {"ended", run.ended},
          {"failed", result.failed},
          {"options", result.options.empty() ? Json() : Json::parse(result.options)}};
}

/// Of an array, in which JSON has null for a value that is not finite.
std::vector<double> numbersOf(const Json& array) {
  std::vector<double> numbers;
  for (const Json& one : array.get<std::vector<Json>>())
    numbers.push_back(one.is_null() ? std::numeric_limits<double>::quiet_NaN() : one.get<double>());
  return numbers;
}

std::string contents(const std::string& path) {
  std::optional<std::string> text = base::readFile(path);
  if (!text)
    throw Error(ErrorCode::system,
                "--results: cannot read '" + path + "': " + std::strerror(errno));
  return *std::move(text);
}

std::string percent(double accuracy) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2f %%", 100 * accuracy);
  return text.data();
}

} // namespace

std::string resultText(const SweepResult& result) { return dumped(jsonOf(result), -1); }

SweepResult resultOf(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    const Json& options = json.at("options");
    return {.run = {.name = json.at("name"),
                    .settings = json.at("settings"),
                    .ranks = json.at("ranks"),
                    .seconds = json.at("epoch_seconds"),
                    .accuracy = json.at("epoch_accuracy"),
                    .noise_scale = numbersOf(json.at("epoch_noise_scale")),
                    .ended = json.at("ended")},
            .options = options.is_null() ? "" : options.dump(),
            .parameter_hash = json.at("parameter_hash"),
            .failed = json.at("failed")};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::data, std::string("is no result of a run: ") + error.what());
  }
}

ResultsFile::ResultsFile(std::string path) : path_(std::move(path)) {
  if (path_.empty() || !std::filesystem::exists(path_)) return;
  const std::string text = contents(path_);
  std::size_t line = 1, begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    try {
      SweepResult result = resultOf(text.substr(begin, end - begin));
      const std::string name = result.run.name;
      known_.insert_or_assign(name, std::move(result));
    } catch (const Error& error) {
      throw Error(ErrorCode::data, path_ + ", line " + std::to_string(line) + " " + error.what());
    }
    ++line;
  }
  if (begin == text.size()) return;
  // A run that was killed may have written the begin of a line. Anything else is not ours to cut.
  const std::string_view rest = std::string_view(text).substr(begin), key = "{\"name\":";
  if (rest.substr(0, key.size()) != key.substr(0, rest.size()))
    throw Error(ErrorCode::data,
                path_ + ", line " + std::to_string(line) + " is no result of a run");
  std::filesystem::resize_file(path_, begin);
}

const SweepResult* ResultsFile::find(const std::string& name, const std::string& options,
                                     int ranks) const {
  const auto found = known_.find(name);
  const bool same = found != known_.end() && !found->second.failed &&
                    found->second.options == options && found->second.run.ranks == ranks;
  return same ? &found->second : nullptr;
}

void ResultsFile::add(const SweepResult& result) const {
  if (path_.empty()) return;
  std::ofstream file(path_, std::ios::binary | std::ios::app);
  file << resultText(result) << std::flush;
  if (!file) throw Error(ErrorCode::system, "--results: cannot write '" + path_ + "'");
}

SweepSummary summaryOf(const std::vector<SweepResult>& results, bool folds) {
  SweepSummary summary;
  std::vector<double> accuracies;
  double most = -1;
  for (const SweepResult& result : results) {
    if (result.run.accuracy.empty() || !result.run.ended.empty()) continue;
    accuracies.push_back(result.run.accuracy.back());
    if (accuracies.back() <= most) continue;
    most = accuracies.back();
    summary.best = result.run.name;
  }
  if (accuracies.empty()) return summary;
  const auto count = static_cast<double>(accuracies.size());
  for (const double one : accuracies) summary.mean += one / count;
  double squares = 0;
  for (const double one : accuracies) squares += (one - summary.mean) * (one - summary.mean);
  if (accuracies.size() > 1) summary.deviation = std::sqrt(squares / (count - 1));
  summary.text = folds ? "mean accuracy " + percent(summary.mean) + ", standard deviation " +
                             percent(summary.deviation) + ", over " +
                             std::to_string(accuracies.size()) + " folds"
                       : "best: " + summary.best + ", with an accuracy of " + percent(most);
  return summary;
}

void requireResultFiles(const TrainConfig& config) {
  if (!config.json.empty()) requireWritable("--json", config.json);
  if (!config.results.empty()) requireWritable("--results", config.results);
  const std::string& report = config.options.files.report;
  if (report.empty()) return;
  if (const auto why = detail::whyNotWritableIn(report, "index.html"))
    throw Error(ErrorCode::system, "--report: cannot write '" + report + "': " + why.message());
}

void writeResults(const TrainConfig& config, const std::vector<SweepResult>& results) {
  const TrainOptions& options = config.options;
  const bool folds = config.sweep.empty();
  const SweepSummary summary = summaryOf(results, folds);
  if (!config.json.empty()) {
    Json runs = Json::array();
    for (const SweepResult& result : results) runs.push_back(jsonOf(result));
    writeFile(config.json, dumped({{"version", 1},
                                   {"rondo", kVersion},
                                   {"args", config.arguments},
                                   {"best", summary.best},
                                   {"mean_accuracy", summary.mean},
                                   {"accuracy_deviation", summary.deviation},
                                   {"runs", runs}},
                                  2));
  }
  if (options.files.report.empty()) return;
  std::filesystem::create_directories(options.files.report);
  std::vector<TrainSweepRun> runs;
  for (const SweepResult& result : results) runs.push_back(result.run);
  const std::string title = folds ? "Cross-validation: " : "Statistical efficiency: ";
  writeTrainSweep(options.files.report + "/index.html", title + options.model, runs, summary.text);
}

} // namespace rondo::tools
