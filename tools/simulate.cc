// `rondo simulate`: runs the plans of a collective on a described network, without ranks.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/simulate.h"
#include "plan/msccl.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "tools/bench/shape.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/parse.h"
#include "tools/plan_import.h"
#include "tools/plan_names.h"
#include "tools/plan_network.h"
#include "tools/plan_text.h"
#include "tools/simulate_topology.h"
#include "tools/simulate_trace.h"
#include "tools/simulate_train.h"

namespace rondo::tools {

namespace {

/// Ranks that one simulation may have. A tree of 65536 takes half a minute, most of it to build the
/// plans. More ranks have the time of the algorithm's formula.
constexpr int kMostSimulated = 1 << 16, kMostRanks = 1 << 20;

struct SimulateConfig {
  std::string collective = "allreduce", algorithm = "all", bytes = "1M", layout, trace, import,
              topology;
  int ranks = 4, root = 0, nodes = 0;
  bool json = false, in_place = false;
  NetworkConfig network;
};

struct SimulateRow {
  std::string algorithm;
  std::size_t bytes = 0; ///< as the benchmark counts them
  model::Outcome outcome;
  /// Why it was not simulated; empty if it was. Then the outcome has only the time of the formula.
  std::string too_large;
  double building = 0, running = 0; ///< seconds of processor time: plans of all ranks; events

  bool ends() const { return outcome.stuck.empty(); }
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

/// How fast the simulator was; empty if nothing was simulated.
std::string eventsText(const std::vector<SimulateRow>& rows) {
  std::uint64_t events = 0;
  double building = 0, running = 0;
  for (const SimulateRow& row : rows) {
    events += row.outcome.events;
    building += row.building;
    running += row.running;
  }
  if (events == 0) return "";
  return "\n" + std::to_string(events) + " events in " + timeText(running) + " of processor time" +
         (running > 0 ? ", " + formatted("%.3g", static_cast<double>(events) / running * 1e-6) +
                            " million a second"
                      : "") +
         "; building the plans took " + timeText(building) + "\n";
}

std::string simulatedTable(const std::vector<SimulateRow>& rows) {
  Columns columns;
  columns.add({"algorithm", "bytes", "time", "algbw GB/s", "latency", "bytes", "reduction",
               "contention", "tiles", "messages"});
  for (const SimulateRow& row : rows) {
    const model::Outcome& o = row.outcome;
    if (!row.too_large.empty()) {
      columns.add({row.algorithm, formatBytes(row.bytes), timeText(o.seconds),
                   row.gbs() > 0 ? formatted("%.3g", row.gbs()) : "-", "-", "-", "-", "-", "-",
                   "-"});
      continue;
    }
    if (!o.stuck.empty()) {
      columns.add({row.algorithm, formatBytes(row.bytes), "never", "-", "-", "-", "-", "-",
                   std::to_string(o.tiles), std::to_string(o.messages)});
      continue;
    }
    columns.add({row.algorithm, formatBytes(row.bytes), timeText(o.seconds),
                 row.gbs() > 0 ? formatted("%.3g", row.gbs()) : "-", timeText(o.terms.latency),
                 timeText(o.terms.bytes), timeText(o.terms.reduction), timeText(o.terms.contention),
                 std::to_string(o.tiles), std::to_string(o.messages)});
  }
  std::string text = columns.text() + eventsText(rows);
  for (const SimulateRow& row : rows)
    if (!row.too_large.empty())
      text += row.algorithm + " of " + formatBytes(row.bytes) +
              " is not simulated: " + row.too_large +
              ". Its time is from the formula of the algorithm\n";
    else if (!row.outcome.stuck.empty())
      text += row.algorithm + " never ends: " + row.outcome.stuck + "\n";
  return text;
}

/// What all rows have in common.
struct Simulation {
  plan::Spec spec;
  PlannedNetwork planned;
  std::vector<std::string> algorithms = {};
  std::optional<plan::ImportedPlans> imported = {}; ///< in place of an algorithm
};

/// Processor time of this process in seconds.
double processorTime() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Sets the row's outcome and processor times. `arguments`: of model::Simulation.
template <class... Arguments>
void run(SimulateRow& row, const model::Blocks& blocks, const model::Observer& observer,
         const Arguments&... arguments) {
  const double begin = processorTime();
  const model::Simulation simulation(arguments...);
  const double built = processorTime();
  row.outcome = simulation.run(blocks, observer);
  row.building = built - begin;
  row.running = processorTime() - built;
}

SimulateRow simulatedRow(const std::string& word, const Simulation& what, std::size_t bytes,
                         bool in_place, const model::Observer& observer) {
  const model::Blocks blocks{
      .bytes = static_cast<double>(bytes) /
               static_cast<double>(blocksOfSize(what.spec.collective, what.spec.ranks)),
      .in_place = in_place};
  const model::Network network = what.planned.network();
  SimulateRow row{.algorithm = word, .bytes = bytes, .outcome = {}, .too_large = {}};
  if (what.imported) {
    run(row, blocks, observer, what.imported->plans, what.spec.layout, network);
    return row;
  }
  const plan::Choice choice = plan::parseChoice(word);
  const plan::Spec spec = choice.applied(what.spec);
  try {
    if (spec.ranks > kMostSimulated)
      throw model::TooLarge("more than " + std::to_string(kMostSimulated) + " ranks");
    run(row, blocks, observer, *choice.algorithm, spec, network);
  } catch (const model::TooLarge& error) {
    row.too_large = error.what();
    row.outcome.seconds = model::closedForm(*choice.algorithm, spec, blocks, network);
  }
  return row;
}

Simulation simulationOf(const SimulateConfig& config) {
  Simulation what{.spec = {.collective = parseCollective(config.collective),
                           .ranks = config.ranks,
                           .root = config.root},
                  .planned = plannedNetwork(config.network)};
  if (!config.import.empty()) {
    what.imported = readMscclFile(config.import);
    what.spec = what.imported->plans.front().spec;
    what.algorithms = {what.imported->name.empty() ? config.import : what.imported->name};
  }
  if (!config.topology.empty())
    what.spec.layout =
        placeOn(config.topology, config.nodes, what.spec.ranks, config.network, what.planned);
  else what.spec.layout = plan::parseLayout(config.layout, what.spec.ranks);
  if (what.spec.root >= what.spec.ranks)
    throw Error(ErrorCode::invalid_argument, "root " + std::to_string(what.spec.root) +
                                                 " is not in 0 to " +
                                                 std::to_string(what.spec.ranks - 1));
  if (!what.imported)
    what.algorithms = parseAlgorithmList(config.algorithm, what.spec.collective, what.spec.ranks,
                                         plan::text(what.spec.layout));
  return what;
}

std::string simulatedJson(const std::vector<SimulateRow>& rows, const Simulation& what) {
  nlohmann::ordered_json json{{"collective", name(what.spec.collective)},
                              {"ranks", what.spec.ranks},
                              {"profile", what.planned.profile.name},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const SimulateRow& row : rows) {
    const model::Outcome& o = row.outcome;
    nlohmann::ordered_json one{{"algorithm", row.algorithm}, {"bytes", row.bytes}};
    if (!row.too_large.empty()) {
      one["too_large"] = row.too_large;
      one["formula_us"] = o.seconds * 1e6;
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
    one["events"] = o.events;
    one["processor_s"] = {{"plans", row.building}, {"events", row.running}};
    one["sent_by_all"] = o.total_sent;
    one["sent_by_busiest"] = o.max_sent;
    json["rows"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

int simulateCollective(const SimulateConfig& config) {
  const Simulation what = simulationOf(config);
  const Collective collective = what.spec.collective;
  const std::vector<std::size_t> sizes =
      traits(collective).movesData() ? parseByteCounts(config.bytes) : std::vector<std::size_t>{0};
  std::unique_ptr<TraceWriter> trace;
  if (!config.trace.empty()) {
    if (what.algorithms.size() != 1 || sizes.size() != 1)
      throw Error(ErrorCode::invalid_argument, "--trace needs one algorithm and one size");
    trace = std::make_unique<TraceWriter>(config.trace);
  }
  model::Observer observer;
  if (trace)
    observer = [&](const model::Span& span) {
      trace->add({.name = "step " + std::to_string(span.step),
                  .process = span.rank,
                  .thread = static_cast<int>(span.lane),
                  .begin = span.begin,
                  .end = span.end,
                  .arguments = base::TraceArguments().add("tile", span.tile)});
    };
  std::vector<SimulateRow> rows;
  for (const std::size_t bytes : sizes) {
    const std::size_t begin = rows.size();
    for (const std::string& word : what.algorithms)
      rows.push_back(simulatedRow(word, what, bytes, config.in_place, observer));
    std::stable_sort(rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.end(),
                     [](const SimulateRow& a, const SimulateRow& b) {
                       if (a.ends() != b.ends()) return a.ends();
                       return a.outcome.seconds < b.outcome.seconds;
                     });
  }
  if (trace) trace->close();
  if (config.json) {
    std::fputs(simulatedJson(rows, what).c_str(), stdout);
    return kSuccess;
  }
  std::printf("%s on %d ranks, simulated: %s\n\n%s", std::string(name(collective)).c_str(),
              what.spec.ranks, what.planned.text(what.spec.layout).c_str(),
              simulatedTable(rows).c_str());
  return kSuccess;
}

/// Options that say where the ranks are, or read whole plans.
void addPlaces(CLI::App& app, SimulateConfig& config) {
  auto* layout = app.add_option("--layout", config.layout, "Layout of the ranks, as in rondo plan");
  auto* import = app.add_option("--import", config.import,
                                "Prove the plans of this file, MSCCL's XML, and simulate them")
                     ->type_name(kInputFile);
  for (const char* option : {"collective", "--algorithm", "--ranks", "--root"})
    import->excludes(app.get_option(option));
  auto* topology =
      app.add_option("--topology", config.topology,
                     "Place the ranks on the GPUs, or else the cores, of this machine: XML of "
                     "hwloc or NCCL. NCCL's files also give the speeds of links")
          ->type_name(kInputFile)
          ->excludes(layout);
  app.add_option("--nodes", config.nodes,
                 "With --topology: machines of this kind; default: 1, "
                 "or as many as a links file names")
      ->check(CLI::Range(1, kMostRanks))
      ->needs(topology);
}

#if RONDO_HAVE_TRAINER
/// Before the word train, options of this command would be ignored.
void refuseGiven(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0)
      throw Error(ErrorCode::invalid_argument, "`rondo simulate train` takes no " +
                                                   option->get_name() + " before the word train");
}
#endif

} // namespace

Action addSimulate(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<SimulateConfig>();
  CLI::App* app = parent.add_subcommand(
      "simulate", "Run a collective's plans on a described network, without ranks");
  app->add_option("collective", config->collective, "Default: allreduce")->transform(collectives());
  app->add_option("--algorithm", config->algorithm, "'all' (default), or a comma list of names")
      ->check(algorithms());
  app->add_option("-p,--ranks", config->ranks, "Number of ranks")
      ->check(CLI::Range(1, kMostRanks))
      ->capture_default_str();
  app->add_option("-r,--root", config->root, "Root rank")
      ->check(CLI::Range(0, kMostRanks - 1))
      ->capture_default_str();
  app->add_option("--bytes", config->bytes, "Sizes, as in rondo bench: 8,64K,1M")
      ->capture_default_str();
  addPlaces(*app, *config);
  app->add_flag("--in-place", config->in_place, "Input and output are the same buffer");
  addNetworkOptions(*app, config->network);
  addConditionOptions(*app, config->network);
  app->add_flag("--json", config->json, "Print JSON in place of the table");
  app->add_option("--trace", config->trace,
                  "Write each step of one algorithm to this file, for chrome://tracing or Perfetto")
      ->type_name(kOutputFile);
  app->footer(
      "Examples:\n"
      "  rondo simulate allreduce -p 64 --bytes 100M\n"
      "  rondo simulate allreduce -p 8 --bytes 64K,16M --link loopback --processors 2\n"
      "  rondo simulate allreduce -p 16 --layout 4x4 --bytes 64M --straggler 3=500\n"
      "  rondo simulate allreduce -p 8 --bytes 8M --ideal 1,10\n"
      "  rondo simulate broadcast -p 8 --algorithm tree --dead-link 0-4\n"
      "  rondo simulate allreduce -p 8 --algorithm ring --bytes 1M --trace ring.json\n"
      "  rondo simulate allreduce -p 16 --topology h100.xml --nodes 2 --bytes 64M\n"
      "  rondo simulate --import allreduce.xml --bytes 1M\n"
      "  rondo simulate train --model resnet50 --tflops 10 --bucket-cap 25M -p 256\n");
#if RONDO_HAVE_TRAINER
  const Action train = addSimulateTrain(*app);
  return [config, app, train] {
    if (!app->got_subcommand("train")) return simulateCollective(*config);
    refuseGiven(*app);
    return train();
  };
#else
  return [config] { return simulateCollective(*config); };
#endif
}

} // namespace rondo::tools
