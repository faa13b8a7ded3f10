// `rondo simulate train`: predicts training steps without training.
#include "tools/simulate_train.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "rondo/error.h"
#include "rondo/train.h"
#include "tools/cli_values.h"
#include "tools/command_options.h"
#include "tools/parse.h"
#include "tools/plan_text.h"
#include "tools/simulate_trace.h"
#include "tools/simulate_train_chakra.h"
#include "tools/simulate_train_run.h"
#include "tools/train_cli.h"

namespace rondo::tools {

namespace {

constexpr int kMostSteps = 10'000;
constexpr int kMostTrained = 65'536; ///< ranks

struct TrainQuestion {
  TrainOptions options;
  NetworkConfig network;
  std::string model = "cnn", shape, algorithm = "ring", ranks = "2", report, trace, chakra;
  int samples = 32, steps = 0, per_node = 0;
  std::optional<double> tflops, optimizer_ms;
  bool json = false;
};

std::vector<std::string> modelNames() {
  std::vector<std::string> names;
  for (const TrainChoice& one : trainModels()) names.push_back(one.name);
  names.emplace_back(kBert);
  return names;
}

StepModel timedModel(const TrainQuestion& question) {
  StepModel model =
      stepModel(question.model, question.shape, static_cast<std::size_t>(question.samples));
  if (question.tflops) timeByRate(model, *question.tflops * 1e12);
  else if (!question.report.empty()) timeByReport(model, question.report);
  else timeByMeasurement(model);
  if (question.optimizer_ms) model.optimizer = *question.optimizer_ms * 1e-3;
  return model;
}

std::string heading(const TrainQuestion& question, const StepModel& model,
                    const PlannedNetwork& network, const CallTimes& last) {
  std::string text = model.name + ": " +
                     formatted("%.4g", static_cast<double>(model.weights()) * 1e-6) +
                     " M weights, " + formatted("%.4g", model.flops() * 1e-9) +
                     " GFLOP in the forward pass of a sample; " + std::to_string(model.samples) +
                     " samples in a micro-batch, " + std::to_string(question.options.accumulate) +
                     " micro-batch" + (question.options.accumulate > 1 ? "es" : "") +
                     ", strategy " + question.options.strategy + ", simulated\n";
  text += "passes: " + model.source + "; of a micro-batch: forward " + timeText(model.forward()) +
          ", backward " + timeText(model.backward()) + "; of a step: data " + timeText(model.data) +
          ", optimizer " + timeText(model.optimizer) + "\n";
  text += "network: " + network.text(last.layout()) + ", algorithm " + question.algorithm;
  const std::string& strategy = question.options.strategy;
  if (last.oneProcessor() && strategy != "pipeline" && strategy != "ps")
    text += "; the processor that computes also moves the bytes, so nothing overlaps";
  return text + "\n\n";
}

std::string table(const std::vector<StepRow>& rows) {
  Columns columns;
  columns.add({"ranks", "step", "passes", "communication", "waiting", "samples/s", "efficiency"});
  for (const StepRow& row : rows)
    columns.add({std::to_string(row.ranks), timeText(row.step), timeText(row.passes),
                 timeText(row.communication), timeText(row.waiting()),
                 formatted("%.4g", row.samples_per_second), formatted("%.3f", row.efficiency)});
  std::string text = columns.text();
  for (const StepRow& row : rows)
    for (const std::string& line : row.formulas) text += line + "\n";
  if (rows.size() != 1) return text;
  const StepRow& row = rows.front();
  if (row.most_apart > 0)
    text += "\nworkers were " + std::to_string(row.most_apart) + " steps apart at most\n";
  if (row.last_calls.empty()) return text;
  Columns calls;
  calls.add({"collectives of a step", "bytes", "begin", "time"});
  for (const StepSpan& call : row.last_calls)
    calls.add(
        {call.name, sizeText(call.bytes), timeText(call.begin), timeText(call.end - call.begin)});
  return text + "\n" + calls.text();
}

std::string jsonOf(const TrainQuestion& question, const StepModel& model,
                   const PlannedNetwork& network, const std::vector<StepRow>& rows) {
  nlohmann::ordered_json json{{"model", model.name},
                              {"strategy", question.options.strategy},
                              {"passes", model.source},
                              {"samples", model.samples},
                              {"micro_batches", question.options.accumulate},
                              {"weights", model.weights()},
                              {"forward_us", model.forward() * 1e6},
                              {"backward_us", model.backward() * 1e6},
                              {"profile", network.profile.name},
                              {"algorithm", question.algorithm},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const StepRow& row : rows) {
    nlohmann::ordered_json one{{"ranks", row.ranks},
                               {"step_us", row.step * 1e6},
                               {"passes_us", row.passes * 1e6},
                               {"communication_us", row.communication * 1e6},
                               {"waiting_us", row.waiting() * 1e6},
                               {"samples_per_second", row.samples_per_second},
                               {"efficiency", row.efficiency},
                               {"most_apart", row.most_apart},
                               {"formulas", row.formulas},
                               {"collectives", nlohmann::ordered_json::array()}};
    for (const StepSpan& call : row.last_calls)
      one["collectives"].push_back({{"name", call.name},
                                    {"bytes", call.bytes},
                                    {"begin_us", call.begin * 1e6},
                                    {"us", (call.end - call.begin) * 1e6}});
    json["rows"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

void writeTrace(const std::string& path, const StepRow& row) {
  TraceWriter trace(path);
  std::map<std::string, int> owners;
  std::map<std::pair<std::string, std::string>, int> resources;
  for (const StepSpan& span : row.spans) {
    const auto [owner, new_owner] = owners.emplace(span.owner, static_cast<int>(owners.size()));
    if (new_owner) trace.nameProcess(owner->second, span.owner);
    const auto [resource, new_resource] =
        resources.emplace(std::pair(span.owner, span.resource), static_cast<int>(resources.size()));
    if (new_resource) trace.nameThread(owner->second, resource->second, span.resource);
    base::TraceArguments arguments;
    if (span.bytes >= 0) arguments.add("bytes", std::llround(span.bytes));
    trace.add({.name = span.name,
               .process = owner->second,
               .thread = resource->second,
               .begin = span.begin,
               .end = span.end,
               .arguments = arguments});
  }
  trace.close();
}

int simulateTrain(const TrainQuestion& question) {
  const std::vector<int> counts = parseRanks(question.ranks, kMostTrained);
  if ((!question.trace.empty() || !question.chakra.empty()) && counts.size() != 1)
    throw Error(ErrorCode::invalid_argument, "--trace and --chakra need one number of ranks");
  if (!question.chakra.empty() && question.options.strategy == "ps")
    throw Error(ErrorCode::invalid_argument, "--chakra does not write strategy ps");
  const PlannedNetwork network = plannedNetwork(question.network);
  const StepModel model = timedModel(question);
  std::vector<StepRow> rows;
  std::string text;
  for (const int ranks : counts) {
    CallTimes times(network, question.algorithm, ranks, question.per_node);
    rows.push_back(simulatedRow(
        {.model = model, .options = question.options, .ranks = ranks, .steps = question.steps},
        times));
    text = heading(question, model, network, times);
  }
  if (!question.trace.empty()) writeTrace(question.trace, rows.front());
  if (!question.chakra.empty()) writeChakra(question.chakra, rows.front().tasks, counts.front());
  text = question.json ? jsonOf(question, model, network, rows) : text + table(rows);
  std::fputs(text.c_str(), stdout);
  return kSuccess;
}

void addPasses(CLI::App& app, TrainQuestion& question) {
  app.add_option("--model", question.model, "A model of `rondo train`, or bert (BERT-Large)")
      ->check(CLI::IsMember(modelNames()))
      ->capture_default_str();
  app.add_option("--shape", question.shape,
                 "CHANNELSxHEIGHTxWIDTH of a sample; default: that of the model's usual data");
  app.add_option("--samples", question.samples, "Samples of a micro-batch, on each rank")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  auto* tflops = app.add_option("--tflops", question.tflops,
                                "Speed at which a rank computes, in 10^12 operations a second; "
                                "default: the passes are measured here, on one processor");
  app.add_option("--times", question.report,
                 "Take the times of the passes from this report of `rondo train --json` on one "
                 "rank, or with --strategy local on as many ranks as compute at the same time; "
                 "with the same samples in a micro-batch")
      ->type_name(kInputFile)
      ->excludes(tflops);
  app.add_option("--optimizer-ms", question.optimizer_ms, "Milliseconds of the optimizer's step")
      ->check(CLI::Range(0.0, 1e9))
      ->check(notNan());
}

} // namespace

Action addSimulateTrain(CLI::App& simulate) {
  auto question = std::make_shared<TrainQuestion>();
  CLI::App* app = simulate.add_subcommand("train", "Simulate the steps of `rondo train`");
  app->add_option("-p,--ranks", question->ranks, "Numbers of ranks: 8, or 1,2,4-8")
      ->capture_default_str();
  app->add_option("--per-node", question->per_node, "Ranks of each node; default: all on one")
      ->check(CLI::Range(1, kMostTrained));
  app->add_option("--algorithm", question->algorithm,
                  "Algorithms of collectives: a comma list, or 'all'; the fastest of them counts")
      ->check(algorithms())
      ->capture_default_str();
  app->add_option("--steps", question->steps,
                  "Steps to simulate; times are means over all but the first. Default: enough for "
                  "a steady state")
      ->check(CLI::Range(1, kMostSteps));
  app->add_flag("--json", question->json, "Print JSON in place of the table");
  app->add_option("--trace", question->trace,
                  "Write all steps to this file, for chrome://tracing or Perfetto")
      ->type_name(kOutputFile);
  app->add_option("--chakra", question->chakra,
                  "Write PREFIX.RANK.et for each rank: Chakra execution traces, for ASTRA-sim");
  addPasses(*app, *question);
  addTrainOptions(
      *app, question->options,
      {"strategy", "accumulate", "seed", "servers", "dedicated_servers", "consistency", "period",
       "slow", "jitter", "bucket_bytes", "overlap", "unit_bytes", "pipeline", "laps", "recompute"});
  addNetworkOptions(*app, question->network);
  // A step has stragglers of its own, which the trainer has too: --slow and --jitter.
  addLinkConditionOptions(*app, question->network);
  app->footer(
      "Examples:\n"
      "  rondo simulate train --model resnet50 --tflops 10 --bucket-cap 25M -p 8,64,256 "
      "--per-node 8 --link nvlink\n"
      "  rondo train --model cnn -p 1 --batch 64 --json one.json; rondo simulate train --model "
      "cnn --samples 64 --times one.json -p 2,4\n"
      "  rondo simulate train --model even --strategy pipeline -p 4 --micro-batches 8 --trace "
      "out.json\n"
      "  rondo simulate train --strategy ps --consistency ssp:3 --jitter 0.1:3 -p 8\n");
  return [question] { return simulateTrain(*question); };
}

} // namespace rondo::tools
