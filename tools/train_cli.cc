// `rondo train`: defines its options.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <variant>

#include "rondo/error.h"
#include "rondo/rendezvous.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/parse.h"
#include "tools/train_cli.h"
#include "tools/train_display.h"
#include "tools/train_sweep.h"

namespace rondo::tools {

namespace {

/// "mlp (784-256-128-64-10); cnn (...)"
std::string summaries(const std::vector<TrainChoice>& choices) {
  std::string text;
  for (const TrainChoice& one : choices)
    text += (text.empty() ? "" : "; ") + one.name + " (" + one.summary + ")";
  return text;
}

/// Accepts one of the choices; if its name has a colon, any text may follow the colon.
CLI::Validator choice(const std::vector<TrainChoice>& choices) {
  if (choices.front().summary.empty()) { // the help names them
    std::vector<std::string> names;
    for (const TrainChoice& one : choices) names.push_back(one.name);
    return CLI::IsMember(names);
  }
  return CLI::Validator(
      [choices](const std::string& text) -> std::string {
        std::string valid;
        for (const TrainChoice& one : choices) {
          valid += (valid.empty() ? "" : ", ") + one.name;
          const std::size_t colon = one.name.find(':');
          if (text == one.name && colon == std::string::npos) return {};
          if (colon != std::string::npos && text.size() > colon + 1 &&
              text.compare(0, colon + 1, one.name, 0, colon + 1) == 0)
            return {};
        }
        return "\"" + text + "\" is unknown; valid: " + valid;
      },
      "NAME");
}

CLI::Validator dataSource() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (text.starts_with("synthetic") || std::filesystem::is_directory(text)) return {};
        return "no such folder: " + text + "; valid: a folder, or synthetic";
      },
      "FOLDER|synthetic");
}

/// "1:3" or "0.1:3".
std::pair<double, double> parsePair(const std::string& text, const std::string& usage) {
  const std::size_t colon = text.find(':');
  double first = 0, second = 0;
  if (colon == std::string::npos || !CLI::detail::lexical_cast(text.substr(0, colon), first) ||
      !CLI::detail::lexical_cast(text.substr(colon + 1), second))
    throw CLI::ValidationError(usage, "\"" + text + "\"");
  return {first, second};
}

/// Adds a row of the table of options to the command line. There is an add() for each type of
/// value.
class Adder {
 public:
  Adder(CLI::App& app, const TrainOption& option) : app_(app), option_(option) {
    if (const std::size_t at = help_.find("{}"); at != std::string::npos)
      help_.replace(at, 2, summaries(option.choices()));
  }

  CLI::Option* add(bool& value, bool usual) const {
    return app_.add_flag((usual ? "!" : "") + flag_, value, help_);
  }

  CLI::Option* add(std::string& value, const std::string& usual) const {
    CLI::Option* added = app_.add_option(flag_, value, help_);
    if (option_.unit == TrainUnit::source) return added->check(dataSource());
    if (option_.unit == TrainUnit::file) added->type_name(kOutputFile);
    if (option_.choices != nullptr) added->check(choice(option_.choices()));
    return usual.empty() ? added : added->capture_default_str();
  }

  template <class Number>
  CLI::Option* add(Number& value, Number usual) const {
    if constexpr (std::is_same_v<Number, std::uint64_t>)
      if (option_.unit == TrainUnit::bytes)
        return addText([&value](const std::string& text) { value = parseBytes(text); })
            ->check(byteCount());
    CLI::Option* added = app_.add_option(flag_, value, help_);
    const TrainRange range = option_.typed == TrainRange() ? option_.range : option_.typed;
    if constexpr (std::is_floating_point_v<Number>) added->check(notNan());
    if constexpr (std::is_unsigned_v<Number>)
      added->check(range == TrainRange() ? wholeNumber<Number>()
                                         : wholeNumber(static_cast<Number>(range.least),
                                                       static_cast<Number>(range.most)));
    else if (range != TrainRange())
      added->check(CLI::Range(static_cast<Number>(range.least), static_cast<Number>(range.most)));
    return usual == 0 ? added : added->capture_default_str(); // 0 is explained by the help
  }

  CLI::Option* add(std::vector<std::size_t>& value, const std::vector<std::size_t>&) const {
    return addText([&value](const std::string& text) { value = parseByteCounts(text); })
        ->check(byteCounts());
  }

  CLI::Option* add(std::vector<TrainSlowRank>& value, const std::vector<TrainSlowRank>&) const {
    return app_.add_option_function<std::vector<std::string>>(
        flag_,
        [&value, usage = usage()](const std::vector<std::string>& all) {
          for (const std::string& text : all) {
            const auto [rank, factor] = parsePair(text, usage);
            if (!(std::abs(rank) < 1e6 && rank == std::floor(rank))) // also if it is nan
              throw CLI::ValidationError(usage,
                                         "\"" + text + "\": the rank must be a whole number");
            value.push_back({static_cast<int>(rank), factor});
          }
        },
        help_);
  }

  CLI::Option* add(TrainJitter& value, const TrainJitter&) const {
    return addText([&value, usage = usage()](const std::string& text) {
      const auto [probability, factor] = parsePair(text, usage);
      value = {probability, factor};
    });
  }

 private:
  CLI::Option* addText(const std::function<void(const std::string&)>& take) const {
    return app_.add_option_function<std::string>(flag_, take, help_);
  }
  /// The flag and the form of its value, with which the help begins.
  std::string usage() const { return flag_ + " " + help_.substr(0, help_.find(": ")); }

  CLI::App& app_;
  const TrainOption& option_;
  std::string flag_{option_.flag}, help_{option_.help};
};

/// Adds the rows of the table that are wanted.
void addTable(CLI::App& app, TrainOptions& options, const auto& wanted) {
  TrainOptions defaults;
  for (const TrainOption& option : trainOptionTable()) {
    if (!wanted(option)) continue;
    const TrainMember usual = option.member(defaults);
    CLI::Option* added = std::visit(
        [&](auto* value) {
          return Adder(app, option).add(*value, *std::get<decltype(value)>(usual));
        },
        option.member(options));
    if (!option.group.empty()) added->group(std::string(option.group));
    if (!option.needs.empty()) added->needs(app.get_option("--" + std::string(option.needs)));
  }
}

/// Adds what belongs to the command only, in the groups of the table.
void addOthers(CLI::App& app, TrainConfig& config) {
  app.add_flag("--show-schedule", config.show_schedule,
               "Print what each rank computes, sends and receives in one step, and end");
  app.add_option(
         "--sweep", config.sweep,
         "Run one training for each line of this file, NAME: OPTIONS, with the options of the line "
         "added to those given here; --report compares the runs")
      ->check(CLI::ExistingFile)
      ->type_name(kInputFile);
  app.add_flag("--parallel", config.parallel,
               "Train each line of --sweep on one rank, as many at a time as there are ranks; a "
               "line that fails does not end the others")
      ->needs(app.get_option("--sweep"));
  const auto group = [&](const char* flag) { return app.get_option(flag)->get_group(); };
  app.add_flag("--deterministic", config.deterministic,
               "Reduce in rank order: results are the same in every run and for every transport")
      ->group(group("--groups"));
  app.add_flag_callback(
         "--no-verify", [&config] { config.options.gradients.verify_every = 0; },
         "Compare the ranks' parameters only at the end")
      ->excludes(app.get_option("--verify-every"))
      ->group(group("--verify-every"));
  app.add_option("--json", config.json, "Also write the report to this file as JSON")
      ->type_name(kOutputFile)
      ->group(group("--report"));
  app.add_option("--results", config.results,
                 "Keep the results of --sweep or --folds in this file, a line of JSON each. Runs "
                 "that are in it with the same options are not made again")
      ->type_name(kOutputFile)
      ->group(group("--report"));
}

/// Returns -p.
CLI::Option* addRanks(CLI::App& app, TrainConfig& config) {
  CLI::Option* ranks =
      app.add_option("-p,--ranks", config.ranks, "Ranks to start, unless a launcher started them")
          ->check(CLI::Range(1, 512))
          ->capture_default_str()
          ->group("Ranks");
  app.add_option("--transport", config.transport, transportHelp())
      ->check(transportNames())
      ->group("Ranks");
  app.add_flag("--join", config.joins,
               "Join the elastic run with this --rendezvous-file, as one more rank, and take the "
               "same options")
      ->group("Ranks");
  app.add_flag("--threads", config.threads, "Run the ranks as threads of one process")
      ->group("Ranks");
  return ranks;
}

/// A rank that `rondo run --restart` has started again, and where it finds the others.
void takeElastic(TrainConfig& config) {
  TrainOptions::Elastic& elastic = config.options.elastic;
  const char* file = std::getenv("RONDO_RENDEZVOUS_FILE");
  elastic.joined = config.joins || std::getenv("RONDO_JOIN") != nullptr;
  if (elastic.ranks.empty()) {
    if (elastic.joined)
      throw Error(ErrorCode::invalid_argument,
                  "this rank is to join a run, but without --elastic a run takes no new ranks");
    return;
  }
  if (elastic.rendezvous_file.empty() && file != nullptr) elastic.rendezvous_file = file;
  if (elastic.joined && elastic.rendezvous_file.empty())
    throw Error(ErrorCode::invalid_argument,
                "--join needs --rendezvous-file, the file of the run to join");
  elastic.waiting = [limit = elastic.wait](int ranks, int least) {
    clearProgress();
    std::fprintf(stderr, "rondo train: %d %s here, --elastic needs %d: waiting %g s for %d more\n",
                 ranks, ranks == 1 ? "rank is" : "ranks are", least, limit, least - ranks);
  };
}

/// Returns -p.
CLI::Option* addAll(CLI::App& app, TrainConfig& config) {
  addTable(app, config.options, [](const TrainOption&) { return true; });
  addOthers(app, config);
  return addRanks(app, config);
}

} // namespace

void addTrainOptions(CLI::App& app, TrainOptions& options,
                     std::initializer_list<std::string_view> names) {
  addTable(app, options, [&](const TrainOption& option) {
    return std::find(names.begin(), names.end(), option.name) != names.end();
  });
}

void parseTrain(const std::string& line, TrainConfig& config) {
  CLI::App app;
  addAll(app, config);
  try {
    app.parse(line);
    if (const std::string why = refusedValue(app); !why.empty()) throw CLI::ValidationError(why);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
}

namespace {

void checkShared(const TrainConfig& config) {
  const auto refuse = [](const char* what) { throw Error(ErrorCode::invalid_argument, what); };
  if (!config.sweep.empty() && config.allFolds())
    refuse("--sweep takes no --folds for all lines; a line takes --folds K --fold F");
  if (!config.results.empty() && config.sweep.empty() && !config.allFolds())
    refuse("--results is for --sweep and --folds");
  // Each rank reads it.
  if (config.parallel && !std::filesystem::is_regular_file(config.sweep))
    refuse("--sweep with --parallel takes a regular file, not a pipe or device");
  if (config.shared() && !config.options.elastic.ranks.empty())
    refuse("--elastic is for one run, not for --sweep --parallel or --folds");
}

/// One rank for each core, but not more than runs.
int ranksFor(std::size_t runs) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<int>(std::min(runs, cores));
}

} // namespace

Action addTrain(CLI::App& parent, const std::vector<std::string>& arguments) {
  auto config = std::make_shared<TrainConfig>();
  config->arguments = arguments;
  CLI::App* app = parent.add_subcommand("train", "Train an image classifier on several ranks");
  CLI::Option* ranks = addAll(*app, *config);
  app->footer(
      "Examples:\n"
      "  rondo train --model mlp -p 2\n"
      "  rondo train --model cnn -p 2 --epochs 10 --schedule cosine --lr 0.05 --warm-up 100\n"
      "  rondo train -p 2 --checkpoint run.ckpt --checkpoint-every 100 # then: the same, --resume\n"
      "  rondo train --strategy pipeline --model cnn -p 2 --micro-batches 16\n"
      "  rondo train --sweep bench/train/fashion.sweep --epochs 10 --report out\n"
      "  rondo train --folds 5 --report out --results folds.jsonl\n"
      "  rondo train --model resnet18 --data synthetic -p 2 --steps 20 --json report.json\n");
  return [config, ranks] {
    config->threads = config->threads || needsThreads(config->transport);
    const LaunchInfo launch = Rendezvous::detectLauncher();
    config->launched = !config->threads && !launch.launcher.empty();
    if (config->launched && ranks->count() > 0 && config->ranks != launch.size) {
      throw Error(ErrorCode::invalid_argument, "-p " + std::to_string(config->ranks) + ", but " +
                                                   launch.launcher + " started " +
                                                   std::to_string(launch.size) + " ranks");
    }
    if (config->joins && !config->launched && ranks->count() > 0 && config->ranks != 1)
      throw Error(ErrorCode::invalid_argument, "-p " + std::to_string(config->ranks) +
                                                   ", but --join is for one rank: start it again "
                                                   "for each further one");
    if (config->launched) config->ranks = launch.size;
    takeElastic(*config);
    checkShared(*config);
    if (config->shared() && !config->launched && ranks->count() == 0)
      config->ranks = ranksFor(sweepLines(*config).size());
    if (config->sweep.empty() || config->parallel) return runTrain(*config);
    if (config->launched)
      throw Error(ErrorCode::invalid_argument, "--sweep starts its ranks itself");
    return runSweep(*config);
  };
}

} // namespace rondo::tools
