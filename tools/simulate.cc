// `rondo simulate`: runs the plans of a collective on a described network, without ranks.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/trace_events.h"
#include "model/simulate.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "tools/bench/shape.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/parse.h"
#include "tools/plan_names.h"
#include "tools/plan_network.h"
#include "tools/plan_text.h"

namespace rondo::tools {

namespace {

/// Ranks that one simulation may have. A tree of 65536 takes half a minute, most of it to build the
/// plans.
constexpr int kMostSimulated = 1 << 16;

struct SimulateConfig {
  std::string collective = "allreduce", algorithm = "all", bytes = "1M", layout, trace;
  int ranks = 4, root = 0;
  bool json = false, in_place = false;
  NetworkConfig network;
};

struct SimulateRow {
  std::string algorithm;
  std::size_t bytes = 0; ///< as the benchmark counts them
  model::Outcome outcome;
  std::string too_large; ///< why it was not simulated; empty if it was

  bool ends() const { return too_large.empty() && outcome.stuck.empty(); }
  /// 0 if the call takes no time.
  double gbs() const {
    return outcome.seconds > 0 ? static_cast<double>(bytes) / outcome.seconds * 1e-9 : 0;
  }
  /// The term that is the largest part of the time.
  std::string mostly() const {
    const model::Terms& terms = outcome.terms;
    const std::pair<double, const char*> parts[] = {{terms.latency, "latency"},
                                                    {terms.bytes, "bytes"},
                                                    {terms.reduction, "reduction"},
                                                    {terms.contention, "contention"}};
    return std::max_element(std::begin(parts), std::end(parts))->second;
  }
};

/// Writes the steps of a simulation in the format of Chrome's tracing, which Perfetto reads too. A
/// rank is a process, a lane a thread.
class TraceWriter {
 public:
  explicit TraceWriter(const std::string& path) : file_(path) {
    if (!file_) throw Error(ErrorCode::system, path + ": cannot be written");
    file_ << base::TraceEvents::kHead;
  }
  void add(const model::Span& span) {
    events_.span(span.rank, static_cast<int>(span.lane), "step " + std::to_string(span.step),
                 "step", span.begin * 1e9, (span.end - span.begin) * 1e9,
                 base::TraceArguments().add("tile", span.tile));
    if (events_.bytes() > kPiece) file_ << events_.take();
  }
  void close() {
    file_ << events_.take() << base::TraceEvents::kTail;
    file_.close();
    if (!file_) throw Error(ErrorCode::system, "the trace could not be written");
  }

 private:
  static constexpr std::size_t kPiece = 1 << 20;
  std::ofstream file_;
  base::TraceEvents events_;
};

std::string simulatedTable(const std::vector<SimulateRow>& rows) {
  Columns columns;
  columns.add({"algorithm", "bytes", "time", "algbw GB/s", "latency", "bytes", "reduction",
               "contention", "tiles", "messages"});
  for (const SimulateRow& row : rows) {
    const model::Outcome& o = row.outcome;
    if (!row.too_large.empty()) {
      columns.add({row.algorithm, bytesText(row.bytes), "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    if (!o.stuck.empty()) {
      columns.add({row.algorithm, bytesText(row.bytes), "never", "-", "-", "-", "-", "-",
                   std::to_string(o.tiles), std::to_string(o.messages)});
      continue;
    }
    columns.add({row.algorithm, bytesText(row.bytes), timeText(o.seconds),
                 row.gbs() > 0 ? formatted("%.3g", row.gbs()) : "-", timeText(o.terms.latency),
                 timeText(o.terms.bytes), timeText(o.terms.reduction), timeText(o.terms.contention),
                 std::to_string(o.tiles), std::to_string(o.messages)});
  }
  std::string text = columns.text();
  for (const SimulateRow& row : rows)
    if (!row.too_large.empty())
      text += row.algorithm + " of " + bytesText(row.bytes) +
              " is not simulated: " + row.too_large + "\n";
    else if (!row.outcome.stuck.empty())
      text += row.algorithm + " never ends: " + row.outcome.stuck + "\n";
  return text;
}

std::string simulatedJson(const std::vector<SimulateRow>& rows, const SimulateConfig& config,
                          const PlannedNetwork& planned) {
  nlohmann::ordered_json json{{"collective", config.collective},
                              {"ranks", config.ranks},
                              {"profile", planned.profile.name},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const SimulateRow& row : rows) {
    const model::Outcome& o = row.outcome;
    nlohmann::ordered_json one{{"algorithm", row.algorithm}, {"bytes", row.bytes}};
    if (!row.too_large.empty()) {
      one["too_large"] = row.too_large;
      json["rows"].push_back(std::move(one));
      continue;
    }
    if (o.stuck.empty()) {
      one["us"] = o.seconds * 1e6;
      one["algbw_gbs"] = row.gbs();
      one["mostly"] = row.mostly();
      one["terms_us"] = {{"latency", o.terms.latency * 1e6},
                         {"bytes", o.terms.bytes * 1e6},
                         {"reduction", o.terms.reduction * 1e6},
                         {"contention", o.terms.contention * 1e6}};
    } else {
      one["stuck"] = o.stuck;
    }
    one["tiles"] = o.tiles;
    one["messages"] = o.messages;
    one["sent_by_all"] = o.total_sent;
    one["sent_by_busiest"] = o.max_sent;
    json["rows"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

SimulateRow simulatedRow(const std::string& word, const plan::Spec& spec, std::size_t bytes,
                         const SimulateConfig& config, const PlannedNetwork& planned,
                         const model::Observer& observer) {
  const plan::Choice choice = plan::parseChoice(word);
  const double block =
      static_cast<double>(bytes) / static_cast<double>(blocksOfSize(spec.collective, spec.ranks));
  SimulateRow row{word, bytes, {}, {}};
  try {
    row.outcome =
        model::simulate(*choice.algorithm, choice.applied(spec),
                        {.bytes = block, .in_place = config.in_place}, planned.network(), observer);
  } catch (const model::TooLarge& error) {
    row.too_large = error.what();
  }
  return row;
}

int simulateCollective(const SimulateConfig& config) {
  const Collective collective = parseCollective(config.collective);
  const PlannedNetwork planned = plannedNetwork(config.network);
  const plan::Spec spec{.collective = collective,
                        .ranks = config.ranks,
                        .root = config.root,
                        .layout = plan::parseLayout(config.layout, config.ranks)};
  if (config.root >= config.ranks)
    throw Error(ErrorCode::invalid_argument, "root " + std::to_string(config.root) +
                                                 " is not in 0 to " +
                                                 std::to_string(config.ranks - 1));
  const auto names = parseAlgorithmList(config.algorithm, collective, config.ranks, config.layout);
  const std::vector<std::size_t> sizes =
      traits(collective).movesData() ? parseByteCounts(config.bytes) : std::vector<std::size_t>{0};
  std::unique_ptr<TraceWriter> trace;
  if (!config.trace.empty()) {
    if (names.size() != 1 || sizes.size() != 1)
      throw Error(ErrorCode::invalid_argument, "--trace needs one algorithm and one size");
    trace = std::make_unique<TraceWriter>(config.trace);
  }
  model::Observer observer;
  if (trace) observer = [&](const model::Span& span) { trace->add(span); };
  std::vector<SimulateRow> rows;
  for (const std::size_t bytes : sizes) {
    const std::size_t begin = rows.size();
    for (const std::string& word : names)
      rows.push_back(simulatedRow(word, spec, bytes, config, planned, observer));
    std::stable_sort(rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.end(),
                     [](const SimulateRow& a, const SimulateRow& b) {
                       if (a.ends() != b.ends()) return a.ends();
                       return a.outcome.seconds < b.outcome.seconds;
                     });
  }
  if (trace) trace->close();
  if (config.json) {
    std::fputs(simulatedJson(rows, config, planned).c_str(), stdout);
    return kSuccess;
  }
  std::printf("%s on %d ranks, simulated: %s\n\n%s", config.collective.c_str(), config.ranks,
              planned.text(spec.layout).c_str(), simulatedTable(rows).c_str());
  return kSuccess;
}

} // namespace

Action addSimulate(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<SimulateConfig>();
  CLI::App* app = parent.add_subcommand(
      "simulate", "Run a collective's plans on a described network, without ranks");
  app->add_option("collective", config->collective, "Default: allreduce")->transform(collectives());
  app->add_option("--algorithm", config->algorithm, "'all' (default), or a comma list of names");
  app->add_option("-p,--ranks", config->ranks, "Number of ranks")
      ->check(CLI::Range(1, kMostSimulated))
      ->capture_default_str();
  app->add_option("-r,--root", config->root, "Root rank")
      ->check(CLI::Range(0, kMostSimulated - 1))
      ->capture_default_str();
  app->add_option("--bytes", config->bytes, "Sizes, as in rondo bench: 8,64K,1M")
      ->capture_default_str();
  app->add_option("--layout", config->layout, "Layout of the ranks, as in rondo plan");
  app->add_flag("--in-place", config->in_place, "Input and output are the same buffer");
  addNetworkOptions(*app, config->network);
  addConditionOptions(*app, config->network);
  app->add_flag("--json", config->json, "Print JSON in place of the table");
  app->add_option(
      "--trace", config->trace,
      "Write each step of one algorithm to this file, for chrome://tracing or Perfetto");
  app->footer(
      "Examples:\n"
      "  rondo simulate allreduce -p 64 --bytes 100M\n"
      "  rondo simulate allreduce -p 8 --bytes 64K,16M --link loopback --processors 2\n"
      "  rondo simulate allreduce -p 16 --layout 4x4 --bytes 64M --straggler 3=500\n"
      "  rondo simulate allreduce -p 8 --bytes 8M --ideal 1,10\n"
      "  rondo simulate broadcast -p 8 --algorithm tree --dead-link 0-4\n"
      "  rondo simulate allreduce -p 8 --algorithm ring --bytes 1M --trace ring.json\n");
  return [config] { return simulateCollective(*config); };
}

} // namespace rondo::tools
