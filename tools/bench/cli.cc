// `rondo bench`: its options, by nccl-tests' letters.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "rondo/error.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"
#include "tools/bench/bench.h"
#include "tools/bench/rules.h"
#include "tools/bench/shape.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/parse.h"
#include "tools/plan_names.h"

namespace rondo::tools {

namespace {

/// Sums of the inputs of values.h have no rounding error with up to so many ranks.
constexpr int kMostBenchRanks = 512;
/// The rows of a table are kept until its end. More of them would take hours, and all the memory.
constexpr std::size_t kMostSizes = 1'000'000;

/// Options as text, before they are parsed.
struct Words {
  std::string collective;
  std::string min = "8", max = "16M", step;
  std::string types = "float", ops = "sum";
  std::string algorithm, device = "cpu";
  int average = 1, check = 1;
  std::optional<bool> blocking;
  std::optional<int> ranks_per_gpu;
  bool threads = false;
};

void addSizes(CLI::App& app, BenchConfig& config, Words& words) {
  const std::string group = "Sizes and repetitions";
  app.add_option("-b,--minbytes", words.min,
                 "Smallest size; 0: a row without elements, then one with one element")
      ->check(byteCount())
      ->capture_default_str()
      ->group(group);
  app.add_option("-e,--maxbytes", words.max, "Largest size")
      ->check(byteCount())
      ->capture_default_str()
      ->group(group);
  auto* step = app.add_option("-i,--stepbytes", words.step, "Bytes from one size to the next")
                   ->check(byteCount())
                   ->group(group);
  app.add_option("-f,--stepfactor", config.factor, "Factor from one size to the next")
      ->check(wholeNumber(std::size_t{2}, std::size_t{1} << 20))
      ->capture_default_str()
      ->excludes(step)
      ->group(group);
  app.add_option(
         "-n,--iters", config.iterations,
         "Timed calls per row; default: depends on the time of one call, 20 for large sizes")
      ->check(CLI::Range(1, 100'000'000))
      ->group(group);
  app.add_option("-w,--warmup_iters", config.warmup,
                 "Calls before the timed ones; default: 1. Without -n and -w, sizes below 64 KiB "
                 "are also warmed up for 10 ms (not on GPUs)")
      ->check(CLI::Range(0, 100'000'000))
      ->group(group);
  app.add_option("-m,--agg_iters", config.aggregate, "Calls per group")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str()
      ->group(group);
  app.add_option("-c,--check", config.check, "Checked calls per row; 0: no checks")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "-G,--cudagraph", config.replays,
         "On GPUs: number of replays of a graph of -n calls (default 20); a sample is one replay")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
}

void addCalls(CLI::App& app, BenchConfig& config, Words& words) {
  const std::string group = "Calls";
  app.add_option("-d,--datatype", words.types, "Element types: 'all', or a comma list")
      ->check(dataTypes())
      ->capture_default_str()
      ->group(group);
  app.add_option("-o,--op", words.ops, "Operators: 'all' (that the type supports), or a comma list")
      ->check(reduceOps())
      ->capture_default_str()
      ->group(group);
  app.add_option("-r,--root", config.root, "Root rank; -1: every rank in turn")
      ->check(CLI::Range(-1, kMostBenchRanks - 1))
      ->capture_default_str()
      ->group(group);
  app.add_option("-z,--blocking", words.blocking,
                 "1: blocking calls, the default; 0: non-blocking calls, many in flight, the "
                 "default on GPUs")
      ->group(group);
  app.add_option("--algorithm", words.algorithm,
                 "Algorithms, with a table for each: a comma list of NAME[/N], or 'all' that "
                 "support the call. Names: " +
                     allAlgorithmNames() + ". Default: chosen by size")
      ->check(algorithms())
      ->group(group);
  app.add_flag("--deterministic", config.deterministic, "Reduce in rank order")->group(group);
  app.add_flag("--mapped", config.mapped,
               "Use buffers that the ranks of a machine read in place (Communicator::allocate)")
      ->group(group);
}

void addRanks(CLI::App& app, BenchConfig& config, Words& words) {
  const std::string group = "Ranks";
  app.add_option("-p,--ranks", config.ranks, "Ranks to start, unless a launcher started them")
      ->check(CLI::Range(1, kMostBenchRanks))
      ->capture_default_str()
      ->group(group);
  app.add_option("--transport", config.transport, transportHelp())
      ->check(transportNames())
      ->group(group);
  app.add_flag("--threads", words.threads, "Run the ranks as threads of one process")->group(group);
  config.bind.clear(); // parseConfig() sets it if the option is not given
  app.add_option(
         "--bind", config.bind,
         "Processors of each rank: core (one core), socket, a list as 0,2,8-11 (one of them "
         "for each rank), or none (any). Default: RONDO_BIND, else core")
      ->group(group);
  app.add_option("--device", words.device, "Where the buffers are: cpu, or cuda (GPUs)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--ranks-per-gpu", words.ranks_per_gpu,
                 "Ranks per GPU; default 1. Rank r of a machine uses GPU r / this")
      ->check(CLI::Range(1, kMostBenchRanks))
      ->group(group);
}

void addReport(CLI::App& app, BenchConfig& config, Words& words) {
  const std::string group = "Report";
  app.add_option("-a,--average", words.average,
                 "Time shown: 0: of rank 0, 1: average of the ranks, 2: minimum, 3: maximum")
      ->check(CLI::Range(0, 3))
      ->capture_default_str()
      ->group(group);
  app.add_option_function<std::string>(
         "--time",
         [&config](const std::string& word) {
           config.statistic = word == "median" ? Statistic::median : Statistic::mean;
         },
         "Statistic of a rank's calls: mean (default) or median; JSON contains both")
      ->check(CLI::IsMember({"mean", "median"}))
      ->group(group);
  app.add_option("-J,--output_file", config.json, "Also write the results to this file as JSON")
      ->type_name(kOutputFile)
      ->group(group);
  app.add_option("--rules", config.rules,
                 "Write a rules file (RONDO_RULES_FILE) that names the fastest algorithm where it "
                 "is more than 5% faster than the planner's choice. Measures --algorithm (default: "
                 "all) and the planner's choice, in two rounds. The file must not exist")
      ->type_name(kOutputFile)
      ->group(group);
}

/// Takes out of "all" the algorithms that deterministic mode forbids. Throws
/// Error(invalid_argument) if one of them was named.
void obeyRankOrder(BenchConfig& config, bool all) {
  const auto others = notInRankOrder(config.algorithms, config.collective, config.ranks);
  for (const std::string& one : others) {
    std::erase(config.algorithms, one);
    config.left_out += (config.left_out.empty() ? "" : ", ") + one;
  }
  if (!others.empty() && (!all || config.algorithms.empty()))
    throw Error(ErrorCode::invalid_argument,
                "deterministic mode reduces in rank order, which these algorithms do not on " +
                    std::to_string(config.ranks) + " ranks: " + config.left_out);
}

/// Sets what is measured, from the words of --algorithm. Throws Error(invalid_argument), also if a
/// rules file cannot describe it.
void setAlgorithms(BenchConfig& config, std::string algorithm) {
  const bool rules = !config.rules.empty();
  if (algorithm.empty() && rules) algorithm = "all";
  if (algorithm.empty()) return;
  if (config.collective == Collective::sendrecv) {
    if (algorithm == "all" && !rules) return;
    throw Error(ErrorCode::invalid_argument, "sendrecv has no algorithms to choose from");
  }
  config.algorithms = parseAlgorithmList(algorithm, config.collective, config.ranks);
  if (config.deterministic || Options::fromEnvironment().deterministic)
    obeyRankOrder(config, algorithm == "all");
  if (!rules) return;
  std::set<std::size_t> sizes;
  for (const DataType type : config.types)
    for (const std::size_t count : elementCounts(config, type, config.ranks)) {
      sizes.insert(count * sizeOf(type) * blocksOfSize(config.collective, config.ranks));
      if (sizes.size() > kMostRuleSizes)
        throw Error(ErrorCode::invalid_argument,
                    "--rules: more than " + std::to_string(kMostRuleSizes) +
                        " sizes are measured, which do not fit into a rules file");
    }
  config.algorithms = tablesForRules(config.algorithms);
}

/// Turns the words into the configuration. Throws Error(invalid_argument).
void parseConfig(BenchConfig& config, const Words& words, bool ranks_given) {
  config.collective = parseCollective(words.collective);
  config.min_bytes = parseBytes(words.min);
  config.max_bytes = parseBytes(words.max);
  config.step_bytes = words.step.empty() ? 0 : parseBytes(words.step);
  config.types = parseDataTypes(words.types);
  config.ops = parseReduceOps(words.ops);
  config.combine = static_cast<Combine>(words.average);
  if (const char* set = std::getenv("RONDO_BIND"); config.bind.empty())
    config.bind = set && *set ? set : "core";
  const bool on_gpu = words.device == "cuda";
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, what);
  };
  if (!on_gpu && words.ranks_per_gpu) refuse("--ranks-per-gpu: only with --device cuda");
  if (!on_gpu && config.replays > 0) refuse("-G: only with --device cuda");
  if (on_gpu && config.mapped)
    refuse("--mapped: not with --device cuda, whose memory is always mapped");
  if (on_gpu) config.ranks_per_gpu = words.ranks_per_gpu.value_or(1);
  config.blocking = words.blocking.value_or(!on_gpu);
  config.threads = words.threads || needsThreads(config.transport);
  if (config.min_bytes > config.max_bytes) {
    refuse("the smallest size (-b " + words.min + ") is above the largest (-e " + words.max + ")");
  }
  if (config.step_bytes > 0 &&
      (config.max_bytes - config.min_bytes) / config.step_bytes >= kMostSizes) {
    refuse("there are more than " + std::to_string(kMostSizes) + " sizes from " + words.min +
           " (-b) to " + words.max + " (-e) in steps of " + words.step + " (-i)");
  }
  const LaunchInfo launch = Rendezvous::detectLauncher();
  config.launched = !config.threads && !launch.launcher.empty();
  // A batch script's launcher may have started one process, which is told to start more ranks.
  if (config.launched && launch.size == 1 && ranks_given && config.ranks > 1 &&
      launch.launcher != "rondo") {
    config.launched = false;
  }
  // Kernels of several processes take turns on a GPU; kernels of one process run at the same time.
  if (on_gpu && !config.launched) config.threads = true;
  if (config.launched) {
    if (ranks_given && config.ranks != launch.size) {
      refuse("-p " + std::to_string(config.ranks) + ", but " + launch.launcher + " started " +
             std::to_string(launch.size) + " ranks");
    }
    config.ranks = launch.size;
  }
  if (config.root >= config.ranks && hasRoot(config.collective)) {
    refuse("root " + std::to_string(config.root) + " is not in 0 to " +
           std::to_string(config.ranks - 1));
  }
  bool any = !reduces(config.collective);
  for (const DataType type : config.types) {
    for (const ReduceOp op : config.ops) any = any || op.supports(type);
  }
  if (!any) refuse("operator " + words.ops + " is not defined on type " + words.types);
  setAlgorithms(config, words.algorithm);
}

/// Adds `rondo bench`. The returned function gives what the parsed options ask for; it throws
/// Error(invalid_argument).
std::function<const BenchConfig&()> addOptions(CLI::App& parent,
                                               const std::vector<std::string>& arguments) {
  auto config = std::make_shared<BenchConfig>();
  auto words = std::make_shared<Words>();
  config->arguments = arguments;
  CLI::App* app = parent.add_subcommand("bench", "Measure and check a collective");
  app->add_option("collective", words->collective, "What to measure")
      ->required()
      ->transform(collectives());
  addSizes(*app, *config, *words);
  addCalls(*app, *config, *words);
  addRanks(*app, *config, *words);
  addReport(*app, *config, *words);
  app->footer(
      "Sizes are those of the whole array: all ranks' blocks for reducescatter, allgather,\n"
      "alltoall, scatter and gather. Results are checked bit by bit unless -c 0. Below 64 KiB the\n"
      "clock is read around several calls on inputs written before the first one; from 64 KiB on\n"
      "around each call, on inputs written again. On GPUs calls follow each other on a stream,\n"
      "and times are by the GPU's clock; ranks are threads unless a launcher (or `rondo run`)\n"
      "started them.\n"
      "Exit status: 1 if a result is wrong, 2 for wrong arguments, 3 for errors.\n\n"
      "Examples:\n"
      "  rondo bench allreduce -p 4 -b 8 -e 64M\n"
      "  rondo bench allreduce --algorithm all --transport shm -b 0 -e 4M\n"
      "  rondo bench reduce -p 8 -d all -o all -b 64K -e 64K -r 3 --transport tcp\n"
      "  rondo bench allreduce --device cuda -p 4 --ranks-per-gpu 4 -e 256M\n"
      "  rondo bench allreduce -p 4 --transport tcp --rules rules.csv\n"
      "  mpirun -np 4 rondo bench allgather -J result.json\n");
  CLI::Option* ranks = app->get_option("--ranks");
  return [config, words, ranks]() -> const BenchConfig& {
    parseConfig(*config, *words, ranks->count() > 0);
    return *config;
  };
}

} // namespace

Action addBench(CLI::App& parent, const std::vector<std::string>& arguments) {
  return [config = addOptions(parent, arguments)] { return runBench(config()); };
}

BenchConfig parseBench(const std::vector<std::string>& words) {
  CLI::App app;
  const auto config = addOptions(app, words);
  std::vector<std::string> reversed(words.rbegin(), words.rend()); // as CLI11 wants it
  reversed.emplace_back("bench");
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
  if (const std::string why = refusedValue(*app.get_subcommand("bench")); !why.empty())
    throw Error(ErrorCode::invalid_argument, why);
  return config();
}

} // namespace rondo::tools
