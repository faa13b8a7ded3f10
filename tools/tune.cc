// `rondo tune`: measures this machine, and writes its link profile or, with --rules, rules.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>

#include "model/profile_file.h"
#include "model/simulate.h"
#include "plan/registry.h"
#include "planner/stored.h"
#include "rondo/error.h"
#include "tools/bench/json.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/parse.h"
#include "tools/plan_text.h"
#include "tools/tune_fit.h"
#include "tools/tune_measure.h"
#include "tools/tune_plot.h"
#include "tools/tune_rules.h"
#include "topology/machine.h"
#include "topology/system.h"

namespace rondo::tools {

namespace {

using TuneSeconds = std::chrono::duration<double>;

struct TuneConfig {
  std::string output, transports = "inproc,shm,tcp,ucx", plot, name = "tuned";
  double seconds = 20;
  std::string rules, ranks, max = "16M";
};

/// The kind of link that a transport between ranks of one machine is.
const std::map<std::string, model::LinkClass> kTuned{{"inproc", model::LinkClass::inproc},
                                                     {"shm", model::LinkClass::shm},
                                                     {"tcp", model::LinkClass::loopback},
                                                     {"ucx", model::LinkClass::ucx}};

constexpr int kMostTunedRanks = 512; ///< as `rondo bench` starts at most
constexpr std::size_t kTunedSizes[] = {8,        256,      1 << 10,   4 << 10,
                                       16 << 10, 64 << 10, 128 << 10, 256 << 10};
constexpr std::size_t kTunedSets[] = {32 << 10, 256 << 10, 2 << 20, 32 << 20, 128 << 20};
/// AllReduces that only test the profile: nothing is fitted to them.
constexpr std::pair<const char*, std::size_t> kTunedCalls[] = {
    {"oneshot", 8}, {"oneshot", 16 << 10}, {"direct", 256 << 10}, {"direct", 4 << 20}};

class Tuner {
 public:
  Tuner(const TuneConfig& config, std::vector<std::string> transports)
      : transports_(std::move(transports)) {
    // One share of the time for each measurement.
    const std::size_t links =
        transports_.size() * (std::size(kTunedSizes) + std::size(kTunedCalls));
    share_ = TuneSeconds(config.seconds / static_cast<double>(links + 6 * std::size(kTunedSets)));
    profile_ = model::defaultProfile();
    profile_.name = config.name;
    profile_.machine = model::machineKey();
    char date[32] = "";
    const std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
    profile_.source = std::string("measured by rondo tune on ") + date;
  }

  void measure() {
    measureMemory();
    for (const std::string& transport : transports_) {
      try {
        measureLink(transport);
      } catch (const Error& error) {
        std::fprintf(stderr, "rondo: %s is not measured: %s\n", transport.c_str(), error.what());
      }
    }
    if (drawn_.empty()) throw Error(ErrorCode::unsupported, "no transport could be measured");
    for (const auto& [transport, seconds] : calls_) testCalls(transport, seconds);
    profile_.source += notMeasured();
  }

  model::Profile& profile() { return profile_; }
  const std::vector<Bandwidths>& drawn() const { return drawn_; }

 private:
  void measureMemory() {
    std::vector<LevelSample> copies;
    for (const std::size_t set : kTunedSets)
      copies.push_back({static_cast<double>(set), copySpeed(set, share_)});
    profile_.copy = fitLevels(copies);
    for (std::size_t i = 0; i < profile_.reduce.size(); ++i) {
      std::vector<LevelSample> sums;
      for (const std::size_t set : kTunedSets)
        sums.push_back({static_cast<double>(set), reduceSpeed(std::size_t{1} << i, set, share_)});
      profile_.reduce[i] = fitLevels(sums);
    }
    profile_.turn = turnTime();
  }

  void measureLink(const std::string& transport) {
    const model::LinkClass kind = kTuned.at(transport);
    MeasuredPair pair(transport);
    std::vector<LinkSample> samples;
    for (const std::size_t bytes : kTunedSizes) samples.push_back(pair.sample(bytes, share_));
    const model::LinkProfile link = fitLink(samples, profile_.link(kind));
    profile_.links[static_cast<std::size_t>(kind)] = link;
    std::vector<std::pair<double, double>> trips, streams;
    Bandwidths drawn{.name = std::string(model::name(kind)), .measured = {}, .fitted = {}};
    for (const LinkSample& sample : samples) {
      trips.emplace_back(halfTrip(link, sample.bytes), sample.half_trip);
      streams.emplace_back(link.send_overhead + link.send(sample.bytes), sample.stream);
      drawn.measured.emplace_back(sample.bytes, sample.bytes / sample.half_trip * 1e-9);
    }
    for (double bytes = samples.front().bytes; bytes <= samples.back().bytes; bytes *= 1.1)
      drawn.fitted.emplace_back(bytes, bytes / halfTrip(link, bytes) * 1e-9);
    drawn_.push_back(std::move(drawn));
    if (kind == model::LinkClass::inproc || kind == model::LinkClass::shm) measurePenalty(pair);
    profile_.residuals.push_back(residualOf(transport + ", half a round trip", trips));
    profile_.residuals.push_back(residualOf(transport + ", a stream (not fitted)", streams));
    std::vector<double> calls;
    for (const auto& [algorithm, bytes] : kTunedCalls)
      calls.push_back(pair.allReduce(algorithm, bytes, share_));
    calls_[transport] = std::move(calls);
  }

  /// What memory beyond the caches adds to each byte of a message.
  void measurePenalty(MeasuredPair& pair) {
    constexpr std::size_t kMessage = 64 << 10;
    std::vector<LevelSample> penalties;
    double base = 0;
    for (const std::size_t set : kTunedSets) {
      if (set < kMessage) continue;
      const double now = pair.streamed(kMessage, set, share_) / kMessage;
      if (base == 0) base = now;
      penalties.push_back({static_cast<double>(set), now - base});
    }
    profile_.memory = fitLevels(penalties);
  }

  /// Compares the measured seconds of kTunedCalls with what the finished profile predicts.
  void testCalls(const std::string& transport, const std::vector<double>& seconds) {
    std::vector<std::pair<double, double>> calls;
    const model::Network network{.profile = &profile_, .inside = kTuned.at(transport)};
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const auto& [algorithm, bytes] = kTunedCalls[i];
      const model::Outcome predicted = model::simulate(
          *plan::findAlgorithm(algorithm), {.collective = Collective::allreduce, .ranks = 2},
          {.bytes = static_cast<double>(bytes)}, network);
      calls.emplace_back(predicted.seconds, seconds[i]);
    }
    profile_.residuals.push_back(
        residualOf(transport + ", AllReduce of 2 ranks (not fitted)", calls));
  }

  /// "; ucx, network, nvlink, pcie as in the default profile".
  std::string notMeasured() const {
    std::string text;
    const auto measured = [&](model::LinkClass kind) {
      return std::ranges::any_of(
          drawn_, [&](const Bandwidths& one) { return one.name == model::name(kind); });
    };
    const auto add = [&](std::string_view what) {
      text += (text.empty() ? "; " : ", ") + std::string(what);
    };
    for (std::size_t i = 0; i < model::kLinkClasses; ++i)
      if (const auto kind = static_cast<model::LinkClass>(i); !measured(kind)) add(name(kind));
    if (!measured(model::LinkClass::inproc) && !measured(model::LinkClass::shm)) add("memory");
    return text + " as in the default profile";
  }

  const std::vector<std::string> transports_;
  TuneSeconds share_{};
  model::Profile profile_;
  std::vector<Bandwidths> drawn_;
  std::map<std::string, std::vector<double>> calls_; ///< by transport: seconds of kTunedCalls
};

/// Returns where the profile is now.
std::string storeProfile(const TuneConfig& config, const model::Profile& profile) {
  const std::string text = model::profileText(profile);
  if (!config.output.empty()) {
    writeFile(config.output, text);
    return config.output;
  }
  const std::string path = planner::profilePath();
  if (!planner::replaceFile(path, text))
    throw Error(ErrorCode::system, "cannot store the profile" +
                                       (path.empty() ? "" : " in '" + path + "'") + ": " +
                                       std::strerror(errno) + "; name a file by -o");
  return path;
}

RulesConfig rulesConfig(const TuneConfig& config) {
  const std::vector<std::string> transports = splitWords(config.transports);
  if (transports.size() != 1)
    throw Error(ErrorCode::invalid_argument,
                "--rules: name one transport by --transports; rules do not know transports, so "
                "each needs its own file");
  if (!kTuned.contains(transports[0]) || needsThreads(transports[0]))
    throw Error(ErrorCode::invalid_argument, "--rules: transport '" + transports[0] +
                                                 "' does not connect processes of one machine; "
                                                 "valid: shm, tcp, ucx");
  return {.output = config.rules,
          .transport = transports[0],
          .ranks = parseRanks(config.ranks, kMostTunedRanks),
          .max_bytes = parseBytes(config.max)};
}

int tuneMachine(const TuneConfig& config) {
  std::vector<std::string> transports = splitWords(config.transports);
  for (const std::string& transport : transports)
    if (!kTuned.contains(transport))
      throw Error(ErrorCode::invalid_argument, "transport '" + transport +
                                                   "' cannot be measured between ranks of one "
                                                   "machine; valid: inproc, shm, tcp, ucx");
  if (!config.output.empty()) requireWritable("--output", config.output);
  if (!config.plot.empty()) requireWritable("--plot", config.plot);
  const topology::Processors own = topology::ownProcessors();
  const std::string shared = sharedBy(placesOfPair(topology::systemMachine(own), own));
  if (shared == "processor" && config.output.empty())
    throw Error(ErrorCode::unsupported,
                "this process may use only one processor, so links between processors cannot be "
                "measured; allow two processors, or write the profile to a file by -o");
  if (!shared.empty())
    std::fprintf(stderr,
                 "rondo: warning: the two ranks share the only %s that this process "
                 "may use; links between %ss are faster\n",
                 shared.c_str(), shared.c_str());
  Tuner tuner(config, std::move(transports));
  tuner.measure();
  model::Profile& profile = tuner.profile();
  if (!shared.empty()) profile.source += "; two ranks shared a " + shared;
  const std::string path = storeProfile(config, profile);
  Columns columns;
  columns.add({"link", "8 B", "64 KiB", "latency", "overhead"});
  for (const Bandwidths& drawn : tuner.drawn()) {
    const model::LinkProfile& link = profile.link(model::parseLinkClass(drawn.name));
    columns.add({drawn.name, timeText(halfTrip(link, 8)), timeText(halfTrip(link, 64 << 10)),
                 timeText(link.alpha), timeText(link.send_overhead)});
  }
  std::printf("half a round trip between 2 ranks of this machine\n\n%s\n", columns.text().c_str());
  for (const model::Residual& residual : profile.residuals)
    std::printf("error of %s: median %.0f%%, largest %.0f%%\n", residual.what.c_str(),
                100 * residual.median, 100 * residual.worst);
  std::printf("\nwritten to %s%s\n", path.c_str(),
              config.output.empty() ? ", where Rondo finds it" : "; use it by RONDO_PROFILE");
  if (!config.plot.empty())
    writeFile(config.plot, bandwidthSvg("Bandwidth by message size: measured (points), fitted "
                                        "(lines)",
                                        tuner.drawn()));
  return kSuccess;
}

} // namespace

Action addTune(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<TuneConfig>();
  CLI::App* app = parent.add_subcommand(
      "tune", "Measure this machine, and write its link profile or a rules file");
  app->add_option("-o,--output", config->output,
                  "The profile; default: a file below $XDG_CACHE_HOME or ~/.cache, where Rondo "
                  "finds it")
      ->type_name(kOutputFile);
  app->add_option("--name", config->name, "Name of the profile")->capture_default_str();
  app->add_option("--transports", config->transports, "Transports to measure")
      ->capture_default_str();
  app->add_option("--seconds", config->seconds,
                  "About how long to measure; longer is more exact on a busy machine")
      ->check(CLI::Range(0.1, 600.0))
      ->check(notNan())
      ->capture_default_str();
  app->add_option("--plot", config->plot,
                  "Draw the bandwidth by message size, measured and fitted, to this SVG file")
      ->type_name(kOutputFile);
  auto* const rules = app->add_option(
      "--rules", config->rules,
      "Write a rules file (RONDO_RULES_FILE) instead of a profile. For each of 8 collectives it "
      "names the fastest algorithm where it is more than 5% faster than the planner's choice");
  rules->type_name(kOutputFile)->excludes("--output")->excludes("--plot");
  app->add_option("-p,--ranks", config->ranks, "With --rules: numbers of ranks, such as 2,4")
      ->check(rankCounts(kMostTunedRanks))
      ->needs(rules);
  rules->needs("--ranks");
  app->add_option("-e,--maxbytes", config->max, "With --rules: largest size")
      ->check(byteCount())
      ->needs(rules)
      ->capture_default_str();
  app->footer(
      "It needs two processors. Nothing else should run on the machine meanwhile.\n\n"
      "Examples:\n"
      "  rondo tune\n"
      "  rondo tune -o machine.json --plot machine.svg\n"
      "  rondo tune --rules rules.csv -p 2,4 --transports shm\n"
      "  rondo plan allreduce -p 8 --bytes 1M --explain --profile machine.json\n");
  return [config] {
    return config->rules.empty() ? tuneMachine(*config) : tuneRules(rulesConfig(*config));
  };
}

} // namespace rondo::tools
