// `rondo plan`: explains, proves and counts the plans of algorithms.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "model/tables.h"
#include "plan/count.h"
#include "plan/msccl.h"
#include "plan/print.h"
#include "plan/registry.h"
#include "planner/decide.h"
#include "planner/rules_file.h"
#include "planner/stored.h"
#include "rondo/error.h"
#include "rondo/options.h"
#include "tools/bench/json.h"
#include "tools/bench/shape.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/command_options.h"
#include "tools/parse.h"
#include "tools/plan_check.h"
#include "tools/plan_compare.h"
#include "tools/plan_device.h"
#include "tools/plan_dot.h"
#include "tools/plan_explain.h"
#include "tools/plan_goal.h"
#include "tools/plan_import.h"
#include "tools/plan_names.h"
#include "tools/plan_network.h"

namespace rondo::tools {

namespace {

constexpr int kMostPlannedRanks = 4096;

struct PlanConfig {
  std::string collective, algorithm, ranks, bytes, layout;
  int root = 0, rank = -1;
  bool check = false, table = false, list = false, rounds = false, all = false;
  bool oversubscribed = false, network_channels = false;
  int ranks_per_gpu = 0;
  double memory_gbs = 0;
  bool explain = false, json = false;
  std::string goal, dot, msccl, import;
  NetworkConfig network;
};

std::vector<Collective> collectivesOf(const PlanConfig& config) {
  if (!config.collective.empty()) return {parseCollective(config.collective)};
  return {kCollectives.begin(), kCollectives.end()};
}

constexpr const char* kRanks = "4";

/// The numbers of -p, or the number of ranks in the layout.
std::vector<int> rankCounts(const PlanConfig& config) {
  if (!config.ranks.empty()) return parseRanks(config.ranks, kMostPlannedRanks);
  if (config.layout.empty() || config.layout == "all") return parseRanks(kRanks, kMostPlannedRanks);
  return {static_cast<int>(plan::parseLayout(config.layout).groups.front().size())};
}

int singleRankCount(const PlanConfig& config) {
  const std::vector<int> ranks = rankCounts(config);
  if (ranks.size() == 1) return ranks[0];
  throw Error(ErrorCode::invalid_argument, "-p " + config.ranks + ": a range needs --check");
}

int list() {
  for (const plan::Algorithm* algorithm : plan::algorithms()) {
    std::string served;
    for (const Collective collective : kCollectives) {
      bool any = false;
      for (int ranks = 1; ranks <= 64 && !any; ++ranks)
        any = algorithm->supports({.collective = collective, .ranks = ranks, .multicast = true});
      any = any || algorithm->supports(
                       {.collective = collective, .ranks = 4, .layout = plan::parseLayout("2x2")});
      if (any) served += " " + std::string(name(collective));
    }
    std::printf("%-18s %s\n%-18s%s\n", std::string(algorithm->name).c_str(),
                std::string(algorithm->summary).c_str(), "", served.c_str());
  }
  return kSuccess;
}

int table(const PlanConfig& config) {
  const auto bytes = static_cast<double>(parseBytes(config.bytes.empty() ? "1M" : config.bytes));
  bool equal = true;
  for (const model::Table& one : model::lectureTables(singleRankCount(config), bytes)) {
    std::printf("%s\n", model::text(one).c_str());
    equal = equal && one.equal();
  }
  return equal ? kSuccess : kFailure;
}

int check(const PlanConfig& config) {
  std::vector<plan::Choice> choices;
  if (config.algorithm.empty() || config.algorithm == "all")
    for (const plan::Algorithm* algorithm : plan::algorithms()) choices.push_back({algorithm, 0});
  else
    for (const std::string_view word : plan::choiceWords(config.algorithm))
      choices.push_back(plan::parseChoice(word));
  const std::vector<int> ranks = rankCounts(config);
  const std::vector<PlanPair> pairs =
      pairsToCheck(choices, collectivesOf(config), ranks, layoutsToCheck(config.layout, ranks));
  if (pairs.empty()) {
    throw Error(
        ErrorCode::invalid_argument,
        "nothing to check: none of these algorithms supports this collective with so many ranks");
  }
  std::size_t plans = 0, violating = 0;
  const int threads = std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
  checkPairs(pairs, threads, [&](const PlanPair& pair, const PairVerdict& verdict) {
    std::printf("%s\n", verdictText(pair, verdict).c_str());
    std::fflush(stdout);
    plans += verdict.plans;
    violating += verdict.violating;
  });
  std::printf(
      "total: %zu plans of %zu algorithms x collectives for ranks %s, slot depths 1, 2, 8: ", plans,
      pairs.size(), (config.ranks.empty() ? std::to_string(ranks.front()) : config.ranks).c_str());
  if (violating == 0) {
    std::printf("all proved\n");
    return kSuccess;
  }
  std::printf("%zu VIOLATE\n", violating);
  return kFailure;
}

Collective collectiveOf(const PlanConfig& config) {
  return config.collective.empty() ? Collective::allreduce : parseCollective(config.collective);
}

/// The sizes of --bytes, or else of `otherwise`; {0} for a collective that moves no data.
std::vector<std::size_t> sizesOf(const PlanConfig& config, const std::string& otherwise) {
  if (!traits(collectiveOf(config)).movesData()) return {0};
  std::vector<std::size_t> sizes;
  const std::string& text = config.bytes.empty() ? otherwise : config.bytes;
  if (!text.empty())
    for (const std::string& word : splitWords(text)) sizes.push_back(parseBytes(word));
  return sizes;
}

int largestNode(const plan::Layout& layout, int ranks) {
  std::size_t most = 0;
  for (const auto& node : layout.nodes()) most = std::max(most, node.size());
  return most == 0 ? ranks : static_cast<int>(most);
}

/// Throws Error(invalid_argument) that names the variable.
void checkAlgorithms(const std::string& text, Collective collective) {
  try {
    plan::parseAlgorithms(text, collective);
  } catch (const Error& error) {
    const std::string variables = plan::isWish(text) ? "RONDO_ALGO or NCCL_ALGO" : "RONDO_ALGO";
    throw Error(error.code(), variables + ": " + error.what());
  }
}

/// What calls of jobs obey: the user's algorithms, order of reduction and rules file.
planner::Policy policyOf(const Options& options, Collective collective) {
  checkAlgorithms(options.algorithm, collective);
  planner::Policy policy{.algorithms = options.algorithm, .deterministic = options.deterministic};
  if (const std::string& file = options.rules_file; !file.empty())
    policy.rules_file = std::make_shared<planner::RulesFile>(planner::RulesFile::read(file));
  return policy;
}

int compareAll(const PlanConfig& config) {
  const Options options = Options::fromEnvironment();
  Comparison what{.collective = collectiveOf(config),
                  .ranks = singleRankCount(config),
                  .root = config.root,
                  .bytes = {},
                  .policy = policyOf(options, collectiveOf(config))};
  what.policy.layout = plan::parseLayout(config.layout, what.ranks);
  what.policy.network_channels = config.network_channels || what.policy.layout.nodes().size() > 1;
  what.bytes = sizesOf(config, "8,8K,1M,64M");
  // One description of the machine serves the rules and the prediction.
  NetworkConfig network = config.network;
  if (network.link.empty() && config.network_channels) network.link = "loopback";
  const int share = largestNode(what.policy.layout, what.ranks);
  if (network.processors == 0 && config.oversubscribed) network.processors = std::max(share / 2, 1);
  PlannedNetwork planned = plannedNetwork(network);
  if (network.profile.empty() && network.ideal.empty())
    planned.profile = planner::usedProfile(options.profile); // as jobs do
  what.policy.oversubscribed = planned.processors > 0 && planned.processors < share;
  const auto& inside = planned.profile.links[static_cast<std::size_t>(planned.inside)];
  what.policy.network_channels = what.policy.network_channels || (inside && !inside->mapped);
  if (options.planner == "model") {
    what.policy.site = {planned.inside, planned.between, planned.processors, 0};
    what.policy.table =
        std::make_shared<planner::Table>(planner::decide(what.ranks, what.policy, planned.profile));
  }
  const std::string text = !config.explain ? compare(what, planned)
                           : config.json   ? explanationJson(what, planned)
                                           : explainChoice(what, planned);
  std::fputs(text.c_str(), stdout);
  return kSuccess;
}

int predictForDevices(const PlanConfig& config) {
  DeviceQuestion question{.collective = collectiveOf(config),
                          .ranks = singleRankCount(config),
                          .root = config.root,
                          .bytes = sizesOf(config, "8,8K,1M,256M"),
                          .machine = {},
                          .rates = {}};
  if (config.algorithm.empty())
    question.policy = policyOf(Options::fromEnvironment(), question.collective);
  else
    question.algorithms = parseAlgorithmList(config.algorithm, question.collective, question.ranks);
  question.policy.devices = true;
  question.machine.ranks_on_device = std::min(config.ranks_per_gpu, question.ranks);
  question.machine.lends = question.machine.ranks_on_device == question.ranks;
  if (config.memory_gbs > 0) question.rates.memory_gbs = config.memory_gbs;
  std::fputs(deviceTable(question).c_str(), stdout);
  return kSuccess;
}

int explain(const PlanConfig& config) {
  const Collective collective = collectiveOf(config);
  const int ranks = singleRankCount(config);
  plan::PrintOptions options;
  if (config.rank >= 0) options.ranks = {config.rank};
  options.rounds = config.rounds;
  if (traits(collective).movesData())
    for (const std::size_t bytes : sizesOf(config, ""))
      options.blocks.push_back(bytes / blocksOfSize(collective, ranks));
  const auto choices = parseAlgorithmList(config.algorithm, collective, ranks, config.layout);
  for (const std::string& word : choices) {
    const plan::Choice choice = plan::parseChoice(word);
    const plan::Spec spec = choice.applied({.collective = collective,
                                            .ranks = ranks,
                                            .root = config.root,
                                            .layout = plan::parseLayout(config.layout, ranks),
                                            .multicast = true});
    std::fputs(plan::explain(*choice.algorithm, spec, options).c_str(), stdout);
    if (choices.size() > 1) std::puts("");
  }
  return kSuccess;
}

bool exports(const PlanConfig& config) {
  return !config.goal.empty() || !config.dot.empty() || !config.msccl.empty();
}

/// Writes one algorithm's plans for other programs.
int exportPlan(const PlanConfig& config) {
  const Collective collective = collectiveOf(config);
  const int ranks = singleRankCount(config);
  if (config.algorithm.empty() || config.algorithm == "all")
    throw Error(ErrorCode::invalid_argument, "--goal, --dot and --msccl need --algorithm NAME");
  const auto names = parseAlgorithmList(config.algorithm, collective, ranks, config.layout);
  const auto sizes = sizesOf(config, "1M");
  if (names.size() != 1 || sizes.size() != 1)
    throw Error(ErrorCode::invalid_argument,
                "--goal, --dot and --msccl write one algorithm's plans of one size; given: " +
                    std::to_string(names.size()) + " algorithms, " + std::to_string(sizes.size()) +
                    " sizes");
  const plan::Choice choice = plan::parseChoice(names.front());
  const plan::Spec spec = choice.applied({.collective = collective,
                                          .ranks = ranks,
                                          .root = config.root,
                                          .layout = plan::parseLayout(config.layout, ranks)});
  const auto bytes = static_cast<double>(sizes.front() / blocksOfSize(collective, ranks));
  if (!config.goal.empty())
    writeFile(config.goal, goalText(*choice.algorithm, spec, bytes,
                                    planner::usedProfile(Options::fromEnvironment().profile)));
  if (!config.dot.empty()) writeFile(config.dot, dotText(*choice.algorithm, spec));
  if (!config.msccl.empty())
    writeFile(config.msccl,
              plan::mscclText(plan::buildAll(*choice.algorithm, spec), choice.text()));
  return kSuccess;
}

int showImported(const PlanConfig& config) {
  const plan::ImportedPlans imported = readMscclFile(config.import);
  std::printf("%s: %s, proved\n%s\n\n", imported.name.c_str(),
              std::string(name(imported.plans.front().spec.collective)).c_str(),
              plan::summarize(imported.plans.front(), plan::count(imported.plans)).c_str());
  for (const plan::RankPlan& one : imported.plans)
    if (one.rank < 8) std::fputs(plan::describeSteps(one).c_str(), stdout);
  return kSuccess;
}

/// Options about what the ranks run on.
void addMachineOptions(CLI::App& app, PlanConfig& config) {
  app.add_option("--layout", config.layout,
                 "Layout of the ranks: 4x2 (4 nodes of 2), 2x2x4 (nodes of sockets), 3,1,4 (uneven "
                 "nodes), 0.1.0.1 (the node of each rank); with --check also 'all': every way to "
                 "divide the ranks into nodes, up to 16 of them");
  app.add_flag("--oversubscribed", config.oversubscribed,
               "Compare for oversubscribed ranks (more ranks than processors)");
  app.add_flag("--tcp", config.network_channels, "Compare for ranks that talk over TCP");
  auto* gpus = app.add_option("--ranks-per-gpu", config.ranks_per_gpu,
                              "Count steps, messages and bytes on GPUs with this many ranks each, "
                              "and predict the time, from assumed (not measured) rates")
                   ->check(CLI::Range(1, kMostPlannedRanks));
  app.add_option("--memory-gbs", config.memory_gbs,
                 "With --ranks-per-gpu: measured speed of a GPU's memory, in GB/s")
      ->check(CLI::Range(1.0, 1e6))
      ->check(notNan())
      ->needs(gpus);
}

/// Options for other views of plans: by time, and for other programs.
void addViewOptions(CLI::App& app, PlanConfig& config, CLI::Option* algorithm) {
  app.add_option("--goal", config.goal,
                 "Write one algorithm's plans to this file as GOAL text, for LogGOPSim")
      ->type_name(kOutputFile)
      ->needs(algorithm);
  app.add_option("--dot", config.dot,
                 "Write one algorithm's steps and messages to this file, for Graphviz")
      ->type_name(kOutputFile)
      ->needs(algorithm);
  app.add_option("--msccl", config.msccl,
                 "Write one algorithm's plans to this file as XML, for MSCCL")
      ->type_name(kOutputFile)
      ->needs(algorithm);
  app.add_option(
         "--import", config.import,
         "Read plans from this file, MSCCL's XML, prove them, and print what each rank does")
      ->type_name(kInputFile)
      ->excludes(algorithm);
  auto* explain_flag = app.add_flag(
      "--explain", config.explain,
      "Predict each algorithm's time by cause, and say why the fastest wins and what the planner "
      "does (RONDO_ALGO, NCCL_ALGO, RONDO_RULES_FILE and RONDO_DETERMINISTIC count)");
  explain_flag->excludes(algorithm);
  app.add_flag("--json", config.json, "With --explain: print JSON")->needs(explain_flag);
  addNetworkOptions(app, config.network);
  for (const char* option : {"--profile", "--ideal", "--link", "--between", "--processors"})
    app.get_option(option)->excludes(algorithm);
}

/// Each of these says what the command does.
void excludeEachOther(CLI::App& app) {
  const char* const modes[] = {"--check", "--table", "--list", "--import", "--explain"};
  for (const char* mode : modes)
    for (const char* other : modes)
      if (mode != other) app.get_option(mode)->excludes(app.get_option(other));
  for (const char* mode : {"--check", "--table", "--list", "--ranks-per-gpu", "--rounds"})
    for (const char* exported : {"--goal", "--dot", "--msccl"})
      app.get_option(mode)->excludes(app.get_option(exported));
  // What is known about GPUs has no nodes, and no profile of links.
  for (const char* other :
       {"--check", "--table", "--list", "--import", "--explain", "--rounds", "--rank", "--layout",
        "--oversubscribed", "--tcp", "--profile", "--ideal", "--link", "--between", "--processors"})
    app.get_option("--ranks-per-gpu")->excludes(app.get_option(other));
}

} // namespace

Action addPlan(CLI::App& parent, const std::vector<std::string>&) {
  auto config = std::make_shared<PlanConfig>();
  CLI::App* app = parent.add_subcommand("plan", "Explain, prove and count what algorithms do");
  app->add_option("collective", config->collective, "Default: allreduce; with --check: all")
      ->transform(collectives());
  auto* algorithm = app->add_option("--algorithm", config->algorithm,
                                    "NAME[(INSIDE,BETWEEN)][/N], or 'all': print what each rank "
                                    "does. Default: a table that compares all algorithms. Names: " +
                                        allAlgorithmNames())
                        ->check(algorithms());
  app->add_option("-p,--ranks", config->ranks,
                  "Number of ranks; with --check also ranges, such as 1-64")
      ->check(tools::rankCounts(kMostPlannedRanks))
      ->default_str(kRanks);
  app->add_option("-r,--root", config->root, "Root rank")
      ->check(CLI::Range(0, kMostPlannedRanks - 1))
      ->capture_default_str();
  app->add_option("--rank", config->rank,
                  "Only this rank's steps; default: those of the first 8 ranks")
      ->check(CLI::Range(0, kMostPlannedRanks - 1))
      ->needs(algorithm);
  app->add_flag("--rounds", config->rounds, "Also, for each round, which rank sends what to which")
      ->needs(algorithm);
  auto* check_flag = app->add_flag("--check", config->check,
                                   "Prove of all plans: messages match, no deadlock at slot depths "
                                   "1, 2 and 8, no races, correct data flow, counts = formulas");
  app->add_flag("--all", config->all, "With --check: all algorithms and collectives (default)")
      ->needs(check_flag);
  app->add_flag("--table", config->table, "Print two tables of costs: counts next to formulas");
  app->add_option(
      "--bytes", config->bytes,
      "Sizes, as in rondo bench. To compare: one or several (8,1M); with --table: one; with "
      "--algorithm: cut the plan into tiles for a call of this size");
  addMachineOptions(*app, *config);
  app->add_flag("--list", config->list,
                "List all algorithms and the collectives that they support");
  addViewOptions(*app, *config, algorithm);
  excludeEachOther(*app);
  app->footer(
      "Exit status: 1 if a check fails or a count differs from its formula.\n\n"
      "Examples:\n"
      "  rondo plan allreduce -p 8 --bytes 1M\n"
      "  rondo plan allreduce -p 8 --bytes 1M --explain\n"
      "  rondo plan allreduce --algorithm ring -p 4\n"
      "  rondo plan broadcast --algorithm tree -p 8 --root 3 --rank 5 --rounds\n"
      "  rondo plan --check --all -p 1-64\n"
      "  rondo plan allreduce --algorithm hierarchical --layout 4x2 --rounds\n"
      "  rondo plan --table -p 8 --bytes 1M\n"
      "  rondo plan allreduce -p 8 --ranks-per-gpu 8 --bytes 8,256M\n");
  return [config] {
    if (config->list) return list();
    if (config->table) return table(*config);
    if (config->check) return check(*config);
    if (!config->import.empty()) return showImported(*config);
    if (exports(*config)) return exportPlan(*config);
    if (config->ranks_per_gpu > 0) return predictForDevices(*config);
    if (config->algorithm.empty()) return compareAll(*config);
    return explain(*config);
  };
}

} // namespace rondo::tools
