#include "tools/train_sweep.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>

#include "base/read_file.h"
#include "rondo/error.h"
#include "tools/command.h"
#include "tools/train_cli.h"
#include "tools/train_results.h"
#include "tools/train_share.h"

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
  std::optional<std::string> text = base::readFile(path);
  if (!text)
    throw Error(ErrorCode::invalid_argument,
                "sweep: cannot read '" + path + "': " + std::strerror(errno));
  return *std::move(text);
}

/// Adds the name of the line to the errors of the action.
auto named(const TrainConfig& common, const SweepLine& line, const auto& action) {
  try {
    return action();
  } catch (const Error& error) {
    const std::string where = (common.sweep.empty() ? "" : "sweep, ") + line.name + ": ";
    throw Error(error.code(), where + error.what());
  }
}

/// Refuses what cannot be trained, and what is for the whole sweep or for another command.
void checkLine(const TrainConfig& common, const TrainConfig& config) {
  const TrainOptions& options = config.options;
  const auto refuseOption = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, what);
  };
  const bool files = !options.files.checkpoint.empty() || !options.files.metrics.empty() ||
                     !options.files.trace.empty() || !config.json.empty() ||
                     !config.results.empty();
  if (files || !config.sweep.empty() || config.show_schedule || config.joins)
    refuseOption(
        "a run takes no --sweep, --checkpoint, --metrics, --trace, --json, --results, "
        "--show-schedule, --join");
  if (common.shared() && config.ranks != 1)
    refuseOption("-p " + std::to_string(config.ranks) + ", but each run is trained on one rank");
  if (options.folds.count > 0 && options.folds.number == 0)
    refuseOption("--folds without --fold: a run trains one fold");
  requireTrainOptions(options, config.ranks);
}

/// Config of one line's run: the common options without those for the whole sweep, and
/// the line's own.
TrainConfig configOf(const TrainConfig& common, const SweepLine& line) {
  TrainConfig config = common;
  config.sweep.clear();
  config.json.clear();
  config.results.clear();
  config.options.files.report.clear();
  if (common.shared()) config.ranks = 1;
  named(common, line, [&] {
    parseTrain(line.settings, config);
    checkLine(common, config);
  });
  return config;
}

/// Trains one line. Throws its errors, except for a loss that is not finite.
SweepResult trainLine(const TrainConfig& config, const SweepLine& line) {
  SweepResult result{.run = {.name = line.name, .settings = line.settings, .ranks = config.ranks},
                     .options = trainOptionsText(config),
                     .parameter_hash = {}};
  double seconds = 0;
  const auto note = [&](const TrainProgress& now) {
    seconds += now.times.step / 1000;
    if (now.test_accuracy < 0) return;
    result.run.seconds.push_back(seconds);
    result.run.accuracy.push_back(now.test_accuracy);
  };
  try {
    const TrainReport report = trainHere(config, note);
    result.run.noise_scale = report.epoch_noise_scale;
    result.parameter_hash = hashText(report.parameter_hash);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::aborted) throw;
    result.run.ended = error.what(); // a diverging run (for example a too large rate) is a result
  }
  return result;
}

/// The same as text, with errors as results. Nothing if a stop was asked for: its last epoch is
/// incomplete.
std::optional<std::string> resultOfLine(const TrainConfig& common, const SweepLine& line,
                                        const std::function<bool()>& stop) {
  const auto stopped = [&] { return stopAsked() || stop(); };
  SweepResult result{
      .run = {.name = line.name, .settings = line.settings}, .options = {}, .parameter_hash = {}};
  try {
    TrainConfig config = configOf(common, line);
    config.options.stop = stopped;
    result = trainLine(config, line);
  } catch (const std::exception& error) {
    result.run.ended = error.what();
    result.failed = true;
  }
  if (stopped()) return std::nullopt;
  return resultText(result);
}

/// Results by run, in the order of the lines, and their files.
class Results {
 public:
  explicit Results(const TrainConfig& config)
      : config_(config), lines_(sweepLines(config)), file_(config.results), all_(lines_.size()) {}

  const std::vector<SweepLine>& lines() const { return lines_; }

  /// Takes the results that the file has already. Returns the numbers of the lines that are left.
  std::vector<std::size_t> takeKnown() {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (const SweepResult* known = find(lines_[i])) {
        all_[i] = *known;
        std::printf("%-32s is in %s\n", lines_[i].name.c_str(), config_.results.c_str());
      } else {
        left.push_back(i);
      }
    }
    std::fflush(stdout);
    return left;
  }

  void add(std::size_t line, const SweepResult& result) {
    const TrainSweepRun& run = result.run;
    std::printf("%-32s %s after %.1f s%s%s\n", run.name.c_str(),
                run.accuracy.empty() ? "no epoch"
                                     : std::to_string(run.accuracy.back()).substr(0, 6).c_str(),
                run.seconds.empty() ? 0.0 : run.seconds.back(), run.ended.empty() ? "" : "; ",
                run.ended.c_str());
    std::fflush(stdout);
    file_.add(result);
    all_[line] = result;
    writeResults(config_, soFar());
  }

  /// Writes the files and says what came out. Returns kFailure if a run could not be made.
  int finish() const {
    const std::vector<SweepResult> all = soFar();
    writeResults(config_, all);
    const std::string text = summaryOf(all, config_.sweep.empty()).text;
    if (!text.empty()) std::printf("%s\n", text.c_str());
    return std::ranges::any_of(all, &SweepResult::failed) ? kFailure : kSuccess;
  }

 private:
  const SweepResult* find(const SweepLine& line) const {
    if (config_.results.empty()) return nullptr;
    try {
      const TrainConfig config = configOf(config_, line);
      return file_.find(line.name, trainOptionsText(config), config.ranks);
    } catch (const Error&) {
      return nullptr; // a wrong line: its run says so
    }
  }
  std::vector<SweepResult> soFar() const {
    std::vector<SweepResult> known;
    for (const std::optional<SweepResult>& one : all_)
      if (one) known.push_back(*one);
    return known;
  }

  const TrainConfig& config_;
  const std::vector<SweepLine> lines_;
  ResultsFile file_;
  std::vector<std::optional<SweepResult>> all_;
};

/// What rank 0 sends for a line, and back.
std::string textOf(const SweepLine& line) { return line.name + "\n" + line.settings; }
SweepLine lineOf(const std::string& text) {
  const std::size_t end = text.find('\n');
  return {text.substr(0, end), text.substr(end + 1)};
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

std::vector<SweepLine> sweepLines(const TrainConfig& config) {
  if (!config.sweep.empty()) return sweepLines(contents(config.sweep));
  const int count = config.options.folds.count;
  std::vector<SweepLine> folds;
  for (int fold = 1; fold <= count; ++fold)
    folds.push_back({"fold " + std::to_string(fold) + " of " + std::to_string(count),
                     "--folds " + std::to_string(count) + " --fold " + std::to_string(fold)});
  configOf(config, folds.front());
  return folds;
}

void requireRuns(const TrainConfig& config) {
  const std::vector<SweepLine> lines = sweepLines(config);
  requireResultFiles(config);
  if (config.allFolds()) requireTrainData(configOf(config, lines.front()).options);
}

int runSweep(const TrainConfig& config) {
  Results results(config);
  std::vector<TrainConfig> configs;
  for (const SweepLine& line : results.lines()) configs.push_back(configOf(config, line));
  requireResultFiles(config);
  for (const std::size_t i : results.takeKnown()) {
    const SweepLine& line = results.lines()[i];
    const SweepResult result = named(config, line, [&] { return trainLine(configs[i], line); });
    if (stopAsked()) return results.finish(), kStopped; // its last epoch is incomplete
    results.add(i, result);
  }
  return results.finish();
}

int shareSweep(Communicator& comm, const TrainConfig& config) {
  std::optional<Results> results;
  std::vector<std::size_t> left; // used on rank 0, like `results`
  std::vector<std::string> tasks;
  if (comm.rank() == 0) {
    results.emplace(config);
    left = results->takeKnown();
    for (const std::size_t i : left) tasks.push_back(textOf(results->lines()[i]));
  }
  const bool all = shareTasks(
      comm, tasks,
      {.work = [&](const std::string& task,
                   const auto& stop) { return resultOfLine(config, lineOf(task), stop); },
       .took = [&](std::size_t task,
                   const std::string& result) { results->add(left[task], resultOf(result)); }});
  const int status = results ? results->finish() : kSuccess;
  return all ? status : kStopped;
}

} // namespace rondo::tools
