#include "tools/train_sweep.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "rondo/detail/writable.h"
#include "rondo/error.h"
#include "tools/bench/json.h"
#include "tools/command.h"
#include "tools/train_cli.h"
#include "tools/version.h"

namespace rondo::tools {

namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin));
}

[[noreturn]] void refuse(std::size_t line, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "sweep, line " + std::to_string(line) + ": " + what);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::invalid_argument, "sweep: " + path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Config of one line's run: the common options without those for the whole sweep, and
/// the line's own.
TrainConfig configOf(const TrainConfig& common, const SweepLine& line) {
  TrainConfig config = common;
  config.sweep.clear();
  config.json.clear();
  config.options.files.report.clear();
  try {
    parseTrain(line.settings, config);
    requireHere(config.options);
  } catch (const Error& error) {
    throw Error(error.code(), "sweep, " + line.name + ": " + error.what());
  }
  const TrainOptions& options = config.options;
  const bool files = !options.files.checkpoint.empty() || !options.files.metrics.empty() ||
                     !options.files.trace.empty();
  if (files || !config.sweep.empty() || config.show_schedule)
    throw Error(ErrorCode::invalid_argument,
                "sweep, " + line.name +
                    ": a run takes no --sweep, --checkpoint, --metrics, --trace, --show-schedule");
  return config;
}

/// Trains one line; returns what the curves need.
TrainSweepRun trainLine(const TrainConfig& config, const SweepLine& line) {
  TrainSweepRun run{.name = line.name, .settings = line.settings, .ranks = config.ranks};
  double seconds = 0;
  const auto note = [&](const TrainProgress& now) {
    seconds += now.times.step / 1000;
    if (now.test_accuracy < 0) return;
    run.seconds.push_back(seconds);
    run.accuracy.push_back(now.test_accuracy);
  };
  try {
    run.noise_scale = trainHere(config, note).epoch_noise_scale;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::aborted) throw;
    run.ended = error.what(); // a diverging run (for example a too large rate) is a result
  }
  return run;
}

std::string jsonText(const TrainConfig& config, const std::vector<TrainSweepRun>& runs) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const TrainSweepRun& run : runs)
    all.push_back({{"name", run.name},
                   {"settings", run.settings},
                   {"ranks", run.ranks},
                   {"epoch_seconds", run.seconds},
                   {"epoch_accuracy", run.accuracy},
                   {"epoch_noise_scale", run.noise_scale},
                   {"ended", run.ended}});
  const nlohmann::ordered_json json = {
      {"version", 1}, {"rondo", kVersion}, {"args", config.arguments}, {"runs", all}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Checks, before the first run, that write() can write its files.
void requireFiles(const TrainConfig& config) {
  if (!config.json.empty()) requireWritable("--json", config.json);
  const std::string& report = config.options.files.report;
  if (report.empty()) return;
  if (const auto why = detail::whyNotWritableIn(report, "index.html"))
    throw Error(ErrorCode::system, "--report: cannot write '" + report + "': " + why.message());
}

void write(const TrainConfig& config, const std::vector<TrainSweepRun>& runs) {
  if (!config.json.empty()) writeFile(config.json, jsonText(config, runs));
  if (config.options.files.report.empty()) return;
  std::filesystem::create_directories(config.options.files.report);
  writeTrainSweep(config.options.files.report + "/index.html",
                  "Statistical efficiency: " + config.options.model, runs);
}

} // namespace

std::vector<SweepLine> sweepLines(std::string_view text) {
  std::vector<SweepLine> all;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos || colon == 0)
      refuse(number, "\"" + line + "\" is not NAME: OPTIONS");
    SweepLine one{trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1))};
    for (const SweepLine& other : all)
      if (other.name == one.name) refuse(number, "there is a run \"" + one.name + "\" already");
    all.push_back(std::move(one));
  }
  if (all.empty()) throw Error(ErrorCode::invalid_argument, "sweep: no line names a run");
  return all;
}

int runSweep(const TrainConfig& config) {
  std::vector<TrainConfig> configs;
  const std::vector<SweepLine> lines = sweepLines(contents(config.sweep));
  for (const SweepLine& line : lines) configs.push_back(configOf(config, line));
  requireFiles(config);
  std::vector<TrainSweepRun> runs;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    TrainSweepRun& run = runs.emplace_back(trainLine(configs[i], lines[i]));
    if (stopAsked()) runs.pop_back(); // its last epoch is incomplete
    else
      std::printf("%-32s %s after %.1f s%s%s\n", run.name.c_str(),
                  run.accuracy.empty() ? "no epoch"
                                       : std::to_string(run.accuracy.back()).substr(0, 6).c_str(),
                  run.seconds.empty() ? 0.0 : run.seconds.back(), run.ended.empty() ? "" : "; ",
                  run.ended.c_str());
    std::fflush(stdout);
    write(config, runs);
    if (stopAsked()) return kStopped;
  }
  return kSuccess;
}

} // namespace rondo::tools
