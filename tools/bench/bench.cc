// Runs the benchmark: finds or starts the ranks, measures all rows, prints and writes the results.
#include "tools/bench/bench.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>

#include "rondo/communicator.h"
#include "tools/bench/json.h"
#include "tools/bench/measure.h"
#include "tools/bench/rules.h"
#include "tools/bench/shape.h"
#include "tools/bench/table.h"
#include "tools/command.h"
#include "tools/spawn.h"
#include "tools/threads.h"

namespace rondo::tools {

namespace {

/// How one rank finds the other ranks; used once per communicator.
struct Meeting {
  int rank = 0, size = 1, local_rank = 0;
  std::string kind; ///< for the header
  std::function<Rendezvous()> control;
  /// Collective over the control communicator.
  std::function<Rendezvous(std::size_t table, Communicator& control)> table;
};

Options optionsFor(const BenchConfig& config) {
  Options options = Options::fromEnvironment();
  if (!config.transport.empty()) options.transports = config.transport;
  if (config.deterministic) options.deterministic = true;
  options.bind = config.bind;
  options.device = -1;
  return options;
}

/// Options of the control communicator, which carries the benchmark's own data. It uses host memory
/// and does not depend on what is measured.
Options controlOptions(const BenchConfig& config) {
  Options options = optionsFor(config);
  options.algorithm.clear();
  options.rules_file.clear();
  if (config.onGpu()) options.transports.clear();
  return options;
}

std::vector<int> rootsOf(const BenchConfig& config, int ranks) {
  if (!hasRoot(config.collective)) return {0};
  if (config.root >= 0) return {config.root};
  std::vector<int> roots;
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Measures one table. Only rank 0 prints it.
TableResult measureTable(const BenchConfig& config, Communicator& control, Communicator& comm,
                         const std::shared_ptr<Gpu>& gpu, const std::string& algorithm) {
  const bool printer = comm.rank() == 0;
  TableResult table;
  table.algorithm = algorithm;
  if (printer) print(titleText(config, algorithm));
  Measurement measurement(config, control, comm, gpu);
  std::string used = algorithm;
  const bool selects = algorithm.empty() && config.collective != Collective::sendrecv;
  // Without a reduction the operator has no meaning, so there is one pass.
  const bool reducing = reduces(config.collective);
  const auto ops = reducing ? config.ops : std::vector<ReduceOp>{ReduceOp::sum};
  for (const DataType type : config.types) {
    for (const ReduceOp op : ops) {
      if (reducing && !op.supports(type)) continue;
      const Pattern pattern =
          reducing ? Pattern(type, op, comm.size()) : Pattern(type, comm.size());
      for (const int root : rootsOf(config, comm.size())) {
        for (const std::size_t count : elementCounts(config, type, comm.size())) {
          table.rows.push_back(measurement.measure(pattern, type, op, root, count));
          const Row& row = table.rows.back();
          if (!printer) continue;
          if (selects && row.algorithm != used) {
            print("# from " + std::to_string(row.bytes) + " bytes on: " + row.algorithm + "\n");
            used = row.algorithm;
          }
          print(rowText(row));
        }
      }
    }
  }
  table.out_of_bounds = measurement.outOfBounds();
  table.memory = measurement.memory();
  if (printer) print(footerText(config, table));
  return table;
}

int nodesOf(const Communicator& comm) {
  std::set<std::string> nodes;
  for (int rank = 0; rank < comm.size(); ++rank) nodes.insert(comm.placeOf(rank).node);
  return static_cast<int>(nodes.size());
}

/// What a rank owns, in the order of construction; destruction must be in reverse order.
struct Rank {
  std::shared_ptr<Gpu> gpu; ///< null: buffers are in host memory
  std::optional<Communicator> control, comm;
};

/// Measures all tables, as one rank. Returns whether all results were right.
bool measureAll(const BenchConfig& config, const Meeting& meeting, Rank& self) {
  auto& [gpu, control, comm] = self;
  Options options = optionsFor(config);
  const std::string from_environment = options.algorithm;
  if (config.onGpu()) {
    options.device = meeting.local_rank / config.ranks_per_gpu;
    gpu = config.open_gpu(options.device);
  }
  control = Communicator::create(meeting.control(), controlOptions(config));
  Environment environment = describeMachine();
  environment.ranks = control->size();
  environment.kind = meeting.kind;
  if (gpu) environment.gpu = gpu->name();
  const bool printer = control->rank() == 0;
  std::vector<TableResult> tables;
  for (std::size_t i = 0; i < config.algorithms.size(); ++i) {
    const std::string& algorithm = config.algorithms[i];
    options.algorithm = algorithm.empty() ? from_environment
                                          : std::string(name(config.collective)) + ":" + algorithm;
    if (!config.rules.empty() && algorithm.empty()) { // what the planner itself chooses
      options.algorithm.clear();
      options.rules_file.clear();
    }
    comm.reset();
    comm = Communicator::create(meeting.table(i, *control), options);
    if (gpu) comm->setStream(gpu->stream());
    environment.transport = transportsOf(*comm);
    environment.nodes = nodesOf(*comm);
    if (printer && i == 0) print(headerText(config, environment));
    tables.push_back(measureTable(config, *control, *comm, gpu, algorithm));
  }
  if (printer && !config.rules.empty()) print(writeRules(config, environment, tables));
  if (printer && !config.json.empty()) {
    writeFile(config.json, jsonText(config, environment, tables));
  }
  return std::all_of(tables.begin(), tables.end(),
                     [](const TableResult& table) { return table.good(); });
}

int benchRank(const BenchConfig& config, const Meeting& meeting) {
  Rank self;
  try {
    return measureAll(config, meeting, self) ? kSuccess : kFailure;
  } catch (const Error& error) {
    return reportError(error, meeting.rank);
  } catch (const std::exception& error) {
    // The library does not know of this error, so the other ranks, which would wait, are told.
    const std::string reason = "rank " + std::to_string(meeting.rank) + ": " + error.what();
    for (auto* communicator : {&self.comm, &self.control})
      if (*communicator) (*communicator)->abort(reason);
    return reportError(error, meeting.rank);
  }
}

int benchThreads(const BenchConfig& config) {
  const Rendezvous control = Rendezvous::inProcess(config.ranks);
  std::vector<Rendezvous> recipes;
  for (std::size_t i = 0; i < config.algorithms.size(); ++i) {
    recipes.push_back(Rendezvous::inProcess(config.ranks));
  }
  std::vector<int> status(static_cast<std::size_t>(config.ranks), kSuccess);
  onThreads(config.ranks, [&](int rank) {
    Meeting meeting{rank,
                    config.ranks,
                    rank,
                    "threads",
                    [&] { return control.as(rank); },
                    [&](std::size_t table, Communicator&) { return recipes[table].as(rank); }};
    status[static_cast<std::size_t>(rank)] = benchRank(config, meeting);
  });
  return *std::max_element(status.begin(), status.end());
}

int benchProcess(const BenchConfig& config, const LaunchInfo& launch) {
  const std::string kind = launch.launcher.empty() || launch.launcher == "rondo"
                               ? "processes"
                               : "processes (" + launch.launcher + ")";
  const Options options = controlOptions(config);
  const auto byId = [&](std::size_t, Communicator& control) {
    UniqueId id;
    if (launch.rank == 0) id = UniqueId::create(options);
    control.broadcast(id.bytes.data(), id.bytes.data(), id.bytes.size(), DataType::uint8, 0);
    return Rendezvous::uniqueId(id, launch.rank, launch.size);
  };
  return benchRank(config, {launch.rank, launch.size, launch.local_rank, kind,
                            [] { return Rendezvous::environment(); }, byId});
}

} // namespace

int runBench(const BenchConfig& config) {
  if (config.onGpu()) {
    // If there are more streams than hardware queues, streams wait for each other; the driver's
    // default number of queues is small.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("CUDA_MODULE_LOADING", "EAGER", 0); // lazy loading may wait for running kernels
    if (!config.launched) config.open_gpu((config.ranks - 1) / config.ranks_per_gpu); // or throws
  }
  const bool writes = !config.launched || Rendezvous::detectLauncher().rank == 0;
  if (writes && !config.json.empty()) requireWritable("--output_file", config.json);
  if (writes && !config.rules.empty()) requireNewRules(config.rules);
  if (config.threads) return benchThreads(config);
  if (config.launched) return benchProcess(config, Rendezvous::detectLauncher());
  SpawnOptions spawn = ownRanks(config.ranks, config.arguments);
  spawn.bind = config.bind;
  return spawnRanks(spawn);
}

} // namespace rondo::tools
