// Simulated training steps, compared with closed forms and with the trainer's own predictions.
// Longer than 500 lines, because it is one list of independent cases.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "model/tasks.h"
#include "rondo/error.h"
#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/simulate_train_run.h"
#include "train/parallel/pipeline/simulate.h"
#include "train/parallel/pipeline/timetable.h"
#include "train/parallel/sharding/traffic.h"

namespace rondo::test {
namespace {

using namespace tools;

/// Layers that all cost the same and have one weight each.
StepModel evenModel(std::size_t layers, std::size_t elements, double forward, double backward) {
  StepModel model;
  for (std::size_t i = 0; i < layers; ++i)
    model.layers.push_back({.name = std::to_string(i),
                            .place = i,
                            .unit = i,
                            .weights = {elements},
                            .flops = 1,
                            .outputs = 1,
                            .forward = forward,
                            .backward = backward});
  return model;
}

TrainOptions optionsFor(const std::string& strategy) {
  TrainOptions options;
  options.strategy = strategy;
  options.gradients.bucket_bytes = {0}; // one bucket for each weight
  return options;
}

StepQuestion question(const StepModel& model, const TrainOptions& options, int ranks,
                      CallTime call) {
  return {.model = model,
          .options = options,
          .ranks = ranks,
          .call = std::move(call),
          .message = [](int, int, double) { return 0.0; }};
}

/// Seconds between the ends of the last two steps.
double stepOf(const SimulatedSteps& steps) {
  const auto times = steps.graph.times();
  const auto end = [&](std::size_t step) {
    double latest = 0;
    for (const std::uint32_t task : steps.ends.at(step)) latest = std::max(latest, times[task].end);
    return latest;
  };
  return (end(steps.ends.size() - 1) - end(steps.ends.size() - 2)) / steps.steps_in_each;
}

double stepOf(const StepModel& model, const TrainOptions& options, int ranks, CallTime call) {
  return stepOf(simulatedSteps(question(model, options, ranks, std::move(call))));
}

constexpr std::size_t kElements = 1024; // a multiple of the alignment in buckets
double perByte(Collective, double bytes) { return bytes / 4096; }
double perCall(double seconds, Collective, double) { return seconds; }

} // namespace

TEST_CASE("tasks begin when their resources are free and the tasks before them have ended",
          "[train]") {
  model::TaskGraph graph;
  const auto a = graph.addResource({.owner = "a"}), b = graph.addResource({.owner = "b"});
  const auto first = graph.add({.name = "1", .seconds = 2, .resources = {a}});
  const auto second = graph.add({.name = "2", .seconds = 3, .resources = {b}, .after = {first}});
  graph.add({.name = "3", .seconds = 1, .resources = {a}});
  graph.add({.name = "4", .seconds = 1, .resources = {a, b}, .after = {second}});
  const auto times = graph.times();
  CHECK(times[1].begin == 2);
  CHECK(times[2].begin == 2);
  CHECK(times[3].begin == 5);
  CHECK(times[3].end == 6);
  for (const double wrong : {-1.0, std::nan(""), 1 / 0.0})
    CHECK_THROWS_AS(graph.add({.name = "x", .seconds = wrong, .resources = {a}}), Error);
  CHECK_THROWS_AS(graph.add({.name = "x", .seconds = 1, .resources = {}}), Error);
  CHECK_THROWS_AS(graph.add({.name = "x", .seconds = 1, .resources = {7}}), Error);
  CHECK_THROWS_AS(graph.add({.name = "x", .seconds = 1, .resources = {a}, .after = {4}}), Error);
}

TEST_CASE("tasks on one processor share its time equally", "[train]") {
  model::TaskGraph graph;
  const auto a = graph.addResource({.owner = "a"}), b = graph.addResource({.owner = "b"});
  const auto c = graph.addResource({.owner = "c"});
  graph.add({.name = "1", .seconds = 2, .resources = {a}, .processor = 0});
  const auto first = graph.add({.name = "2", .seconds = 1, .resources = {b}, .processor = 0});
  graph.add({.name = "3", .seconds = 2, .resources = {c}, .processor = 1});
  graph.add({.name = "4", .seconds = 5, .resources = {b}, .after = {first}}); // sleeps
  const auto times = graph.times();
  CHECK(times[1].end == Approx(2)); // both had half of the processor
  CHECK(times[0].end == Approx(3)); // alone from 2 on
  CHECK(times[2].end == Approx(2));
  CHECK(times[3].end == Approx(7));
}

TEST_CASE("ranks that share processors compute as much longer", "[train]") {
  StepModel model = evenModel(6, kElements, 1, 2);
  const auto free = [](Collective, double) { return 0.0; };
  for (const char* strategy : {"ddp", "fsdp"}) {
    INFO(strategy);
    const TrainOptions options = optionsFor(strategy);
    StepQuestion asked = question(model, options, 4, free);
    asked.processors = {0, 1, 0, 1};
    CHECK(stepOf(simulatedSteps(asked)) == Approx(2 * 18));
    asked.processors = {0, 0, 0, 1}; // three ranks on one
    CHECK(stepOf(simulatedSteps(asked)) == Approx(3 * 18));
  }
  // Stages wait for each other, so two processors are idle less often than four.
  TrainOptions options = optionsFor("pipeline");
  options.accumulate = 8;
  StepQuestion asked = question(model, options, 3, free);
  const double own = stepOf(simulatedSteps(asked));
  asked.processors = {0, 0, 0};
  CHECK(stepOf(simulatedSteps(asked)) == Approx(8 * 18)); // all passes, one after the other
  asked.processors = {0, 1, 0};
  const double two = stepOf(simulatedSteps(asked));
  CHECK(two > own);
  CHECK(two < 2 * own);
}

TEST_CASE("ddp: without computation a step is the sum of its collectives", "[train]") {
  const StepModel model = evenModel(5, kElements, 0, 0);
  CHECK(stepOf(model, optionsFor("ddp"), 4, perByte) == Approx(5));
  TrainOptions whole = optionsFor("ddp");
  whole.gradients.bucket_bytes = {1 << 20};
  CHECK(stepOf(model, whole, 4, perByte) == Approx(5));
  CHECK(stepOf(model, whole, 4, [](Collective, double) { return 2.0; }) == Approx(2));
}

TEST_CASE("every strategy: on an infinitely fast network a step is its computation", "[train]") {
  StepModel model = evenModel(6, kElements, 1, 2);
  model.optimizer = 0.5;
  model.data = 0.25;
  for (const char* strategy : {"ddp", "local", "zero1", "zero2", "fsdp"}) {
    INFO(strategy);
    const auto free = [](Collective, double) { return 0.0; };
    CHECK(stepOf(model, optionsFor(strategy), 4, free) == Approx(18.75));
  }
}

TEST_CASE("ddp: closed forms of overlap for layers that cost the same", "[train]") {
  constexpr int kLayers = 7;
  constexpr double kForward = 1, kBackward = 2;
  const StepModel model = evenModel(kLayers, kElements, kForward, kBackward);
  for (const double call : {0.5, 2.0, 3.0}) {
    const auto calls = [=](Collective c, double bytes) { return perCall(call, c, bytes); };
    // All but the last bucket are hidden, or all but the first layer's backward pass is.
    const double exact = kLayers * kForward + (call <= kBackward ? kLayers * kBackward + call
                                                                 : kBackward + kLayers * call);
    CHECK(stepOf(model, optionsFor("ddp"), 4, calls) == Approx(exact));
    TrainOptions apart = optionsFor("ddp");
    apart.gradients.overlap = false;
    CHECK(stepOf(model, apart, 4, calls) == Approx(kLayers * (kForward + kBackward + call)));
    const TrainOptions usual = optionsFor("ddp");
    StepQuestion shared = question(model, usual, 4, calls);
    shared.one_processor = true;
    CHECK(stepOf(simulatedSteps(shared)) == Approx(kLayers * (kForward + kBackward + call)));
    TrainOptions many = optionsFor("ddp");
    many.accumulate = 3;
    CHECK(stepOf(model, many, 4, calls) == Approx(exact + 2 * kLayers * (kForward + kBackward)));
  }
}

TEST_CASE("ddp: no buckets make a step shorter than its computation or its collectives",
          "[train]") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0, 2);
  std::uniform_int_distribution<std::size_t> elements(1, 5000);
  for (int run = 0; run < 50; ++run) {
    StepModel model = evenModel(1 + static_cast<std::size_t>(run) % 12, 1, 0, 0);
    for (StepLayer& layer : model.layers) {
      layer.forward = seconds(random);
      layer.backward = seconds(random);
      layer.weights = {elements(random), elements(random)};
    }
    const double passes = model.forward() + model.backward();
    for (const std::size_t cap : {0u, 1u << 12, 1u << 14, 1u << 30}) {
      TrainOptions options = optionsFor("ddp");
      options.gradients.bucket_bytes = {cap};
      double sent = 0;
      const auto call = [&](Collective, double bytes) { return 0.1 + bytes / 16384; };
      const SimulatedSteps steps = simulatedSteps(question(model, options, 4, call));
      for (const model::Task& task : steps.graph.tasks())
        if (task.communication) sent += task.seconds / 3; // of three steps
      const double step = stepOf(steps);
      options.gradients.overlap = false;
      const double apart = stepOf(model, options, 4, call);
      CHECK(step >= std::max(passes, sent) - 1e-9);
      CHECK(step <= apart + 1e-9);
      CHECK(apart == Approx(passes + sent));
    }
  }
}

TEST_CASE("sharded strategies send what their closed form says", "[train]") {
  const StepModel model = evenModel(6, kElements, 0, 0);
  training::LayerSizes sizes(6, {kElements});
  for (const auto& [strategy, level] :
       std::map<std::string, training::ShardLevel>{{"zero1", training::ShardLevel::optimizer},
                                                   {"zero2", training::ShardLevel::gradients},
                                                   {"fsdp", training::ShardLevel::parameters}}) {
    const auto layout = training::shardLayout(sizes, 4, training::kEachLayer);
    const double gathered =
        4 * training::gatheredElements(layout, {.level = level, .groups = 1, .shards = 4});
    TrainOptions options = optionsFor(strategy);
    options.sharding.unit_bytes = 0;
    INFO(strategy);
    CHECK(stepOf(model, options, 4, perByte) == Approx((gathered + 6 * 4 * kElements) / 4096));
  }
}

TEST_CASE("local: the average costs a period's share", "[train]") {
  StepModel model = evenModel(4, kElements, 1, 2);
  TrainOptions options = optionsFor("local");
  options.averaging.period = 8;
  CHECK(stepOf(model, options, 4, perByte) == Approx(12 + 4.0 / 8));
}

TEST_CASE("a straggler delays all ranks of ddp, by the trainer's own rule", "[train]") {
  const StepModel model = evenModel(4, kElements, 1, 2);
  TrainOptions options = optionsFor("ddp");
  options.stragglers.slow = {{.rank = 2, .factor = 3}};
  CHECK(differentRanks(options, 8) == std::vector<int>{0, 2});
  CHECK(stepOf(model, options, 8, perByte) == Approx(3 * 12 + 1));
  options.stragglers.slow = {{.rank = 0, .factor = 3}};
  CHECK(differentRanks(options, 8) == std::vector<int>{1, 0}); // the first stands for the others
  options.stragglers.jitter = {.probability = 1, .factor = 2};
  options.stragglers.slow.clear();
  CHECK(differentRanks(options, 8).size() == 8);
  CHECK(stepOf(model, options, 8, perByte) == Approx(2 * 12 + 1));
}

TEST_CASE("pipeline: with free messages a step is the trainer's prediction", "[train]") {
  const StepModel model = evenModel(24, kElements, 1, 2);
  for (const training::PipelineKind* kind : training::pipelineKinds())
    for (const int stages : {1, 2, 3, 4}) {
      const int laps = kind->laps && stages > 1 ? 2 : 1;
      TrainOptions options = optionsFor("pipeline");
      options.pipeline.order = std::string(kind->name);
      options.pipeline.laps = laps;
      options.accumulate = 2 * stages;
      const training::PipelineShape shape{
          .stages = stages, .micro_batches = options.accumulate, .laps = laps};
      const double each = 24.0 / shape.parts();
      const auto expected = training::simulate(training::makeTimetable(*kind, shape),
                                               training::PassCosts::even(shape, each, 2 * each));
      INFO(kind->name << ", " << stages << " stages");
      StepQuestion asked = question(model, options, stages, perByte);
      asked.steps = 1;
      const SimulatedSteps steps = simulatedSteps(asked);
      double end = 0;
      for (const model::TaskTime& time : steps.graph.times()) end = std::max(end, time.end);
      CHECK(end == Approx(expected.makespan));
      // Each message that is not hidden makes the step longer; none makes it shorter.
      asked.message = [](int, int, double) { return 0.5; };
      const SimulatedSteps slower = simulatedSteps(asked);
      double later = 0;
      for (const model::TaskTime& time : slower.graph.times()) later = std::max(later, time.end);
      CHECK(later >= end + (stages > 1 ? 2 * (stages - 1) * 0.5 : 0) - 1e-9);
    }
}

namespace {

ServedSteps served(const StepModel& model, const TrainOptions& options, int ranks, int steps) {
  StepQuestion asked = question(model, options, ranks, perByte);
  asked.steps = steps;
  asked.message = [](int, int, double bytes) { return 1 + bytes / 4096; };
  return servedSteps(asked);
}

} // namespace

TEST_CASE("ps: a step without computation takes two rounds of all workers over the server's line",
          "[train]") {
  StepModel model = evenModel(1, kElements, 0, 0);
  TrainOptions options = optionsFor("ps");
  options.servers.dedicated = true;
  const double latency = 1 + 4.0 / 4096, wire = 1 - 4.0 / 4096;
  for (const int workers : {1, 2, 5}) {
    const ServedSteps one = served(model, options, workers + 1, 1);
    CHECK(one.seconds == Approx(2 * (latency + workers * wire)));
    CHECK(one.communicated == Approx(2 * workers * wire));
  }
  // Two servers each have half of the weights; a worker's own line is the limit for two workers.
  options.servers.count = 2;
  CHECK(served(model, options, 4, 1).seconds == Approx(2 * (latency + wire)));
  // A server that is a worker sends nothing to itself.
  options.servers = {.count = 1, .dedicated = false};
  CHECK(served(model, options, 1, 1).seconds == 0);
  CHECK(served(model, options, 3, 1).communicated == Approx(2 * 2 * wire));
}

TEST_CASE("ps: staleness bounds how far workers are apart, and lets the fast ones go on",
          "[train]") {
  StepModel model = evenModel(4, kElements, 10, 20);
  TrainOptions options = optionsFor("ps");
  options.servers.dedicated = true;
  options.stragglers.jitter = {.probability = 0.2, .factor = 4};
  std::map<std::string, ServedSteps> by;
  for (const char* consistency : {"bsp", "ssp:1", "ssp:3", "asp"}) {
    options.servers.consistency = consistency;
    by[consistency] = served(model, options, 9, 60);
    CHECK(by[consistency].steps == Approx(60));
  }
  CHECK(by["bsp"].most_apart == 1); // a push may come before another one of the same step
  CHECK(by["ssp:1"].most_apart == 2);
  CHECK(by["ssp:3"].most_apart == 4);
  CHECK(by["asp"].most_apart > 4);
  CHECK(by["ssp:1"].seconds < by["bsp"].seconds);
  CHECK(by["ssp:3"].seconds < by["ssp:1"].seconds);
  CHECK(by["asp"].seconds < by["ssp:3"].seconds);
}

// Proves: workers on one processor compute as much longer as there are of them, their pieces leave
// when they are written, and a server without passes takes no part of the processor.
TEST_CASE("ps: workers that share a processor compute as much longer", "[train]") {
  StepModel model = evenModel(4, kElements, 1, 2);
  TrainOptions options = optionsFor("ps");
  options.servers.dedicated = true;
  StepQuestion asked = question(model, options, 4, perByte);
  asked.steps = 3;
  asked.message = [](int, int, double) { return 0.0; };
  CHECK(servedSteps(asked).seconds == Approx(3 * 12));
  asked.processors = {0, 1, 2, 3};
  CHECK(servedSteps(asked).seconds == Approx(3 * 12));
  asked.processors = {0, 0, 0, 0}; // a server and three workers
  CHECK(servedSteps(asked).seconds == Approx(3 * 3 * 12));
  asked.processors = {0, 1, 1, 0};
  CHECK(servedSteps(asked).seconds == Approx(3 * 2 * 12));
  // Four pieces, which the network moves during the passes. The worker's own line is the limit.
  model = evenModel(4, std::size_t{1} << 20, 1, 2);
  asked.message = [](int, int, double bytes) { return 0.01 + bytes / (1 << 23); };
  const double shared = servedSteps(asked).seconds;
  asked.processors = {0, 1, 2, 3};
  const double own = servedSteps(asked).seconds;
  asked.processors = {};
  CHECK(own == Approx(servedSteps(asked).seconds));
  CHECK(shared > own);
  CHECK(shared < 2 * own);
  // The worker that sleeps leaves its processor to the other one.
  asked.message = [](int, int, double) { return 0.0; };
  options.stragglers.slow = {{.rank = 1, .factor = 3}};
  asked.steps = 1;
  asked.processors = {0, 1, 1, 2};
  CHECK(servedSteps(asked).seconds == Approx(36));
}

TEST_CASE("calls are priced by their plans: on an ideal network by their formula", "[train]") {
  const PlannedNetwork network{.profile = model::idealProfile(1e-6, 1e-9), .conditions = {}};
  CallTimes ring(network, "ring", 8, 0);
  constexpr double kBytes = 8 << 20;
  CHECK(ring.call(Collective::allreduce, kBytes) == Approx(14 * (1e-6 + kBytes / 8 * 1e-9)));
  CHECK(ring.call(Collective::allgather, kBytes) == Approx(7 * (1e-6 + kBytes / 8 * 1e-9)));
  CHECK(ring.call(Collective::reducescatter, kBytes) == Approx(7 * (1e-6 + kBytes / 8 * 1e-9)));
  CHECK(ring.message(0, 1, kBytes) == Approx(1e-6 + kBytes * 1e-9));
  CHECK_FALSE(ring.oneProcessor()); // a network moves the bytes
  CallTimes fastest(network, "all", 8, 0);
  CHECK(fastest.call(Collective::allreduce, 8) < ring.call(Collective::allreduce, 8));
  CHECK_THROWS_AS(CallTimes(network, "ring", 8, 3), Error);
  CHECK_THROWS_AS(CallTimes(network, "chain", 8, 0).call(Collective::alltoall, 8), Error);
  PlannedNetwork host = network;
  host.profile = model::defaultProfile();
  CHECK(CallTimes(host, "ring", 8, 0).oneProcessor());
  host.processors = 16;
  CHECK_FALSE(CallTimes(host, "ring", 8, 0).oneProcessor());
}

TEST_CASE("calls that are too large to simulate have the time of the formula, and are named",
          "[train]") {
  const PlannedNetwork network{.profile = model::idealProfile(1e-6, 1e-9), .conditions = {}};
  CallTimes times(network, "oneshot", 8192, 0);
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 8192};
  const double formula =
      model::closedForm(*plan::findAlgorithm("oneshot"), spec, {.bytes = 4096}, network.network());
  CHECK(times.formulas().empty());
  CHECK(times.call(Collective::allreduce, 4096) == formula);
  const std::string line =
      "oneshot for allreduce on 8192 ranks is not simulated: more than 50 million blocks to send. "
      "Its time is from the formula of the algorithm";
  CHECK(times.formulas() == std::vector{line});
  const std::string command =
      "$RONDO simulate train --model mlp --tflops 1 --algorithm oneshot -p 4,8192";
  CHECK(countOf(shell(command).out, line + "\n") == 1);
  const auto rows = nlohmann::json::parse(shell(command + " --json").out)["rows"];
  CHECK(rows[0]["formulas"].empty());
  CHECK(rows[1]["formulas"][0] == line);
}

// Proves: a message takes the time of the link between its two ranks, and no other.
TEST_CASE("messages are priced by the place of both ranks and by the state of their link",
          "[train]") {
  PlannedNetwork network{.profile = model::idealProfile(1e-6, 1e-9), .conditions = {}};
  auto& links = network.profile.links;
  links[static_cast<std::size_t>(model::LinkClass::loopback)]->alpha = 1; // between nodes
  network.conditions.slow_links = {{.src = 1, .dst = 0, .factor = 5}, {1, 3, 2}, {1, 0, 2}};
  CallTimes times(network, "ring", 4, 2);
  constexpr double kBytes = 1000, kInside = 1e-6 + kBytes * 1e-9, kBetween = 1 + kBytes * 1e-9;
  CHECK(times.message(0, 1, kBytes) == Approx(kInside));
  CHECK(times.message(1, 0, kBytes) == Approx(10 * kInside));
  CHECK(times.message(3, 2, kBytes) == Approx(kInside));
  CHECK(times.message(1, 2, kBytes) == Approx(kBetween));
  CHECK(times.message(1, 3, kBytes) == Approx(2 * kBetween));
  network.conditions.slow_links = {{2, 3, std::numeric_limits<double>::infinity()}};
  CHECK_THROWS_AS(CallTimes(network, "ring", 4, 2).message(2, 3, kBytes), Error);
  CHECK_THROWS_AS(CallTimes(network, "ring", 2, 0), Error); // there is no rank 3
}

// Proves: a slow link makes a step longer if the strategy uses it, and in the direction given.
TEST_CASE("a slow link slows the steps of pipelines and parameter servers", "[train]") {
  const StepModel model = evenModel(2, kElements, 0, 0);
  const auto seconds = [&](const char* strategy, int from, int to, int ranks) {
    const TrainOptions options = optionsFor(strategy);
    StepQuestion asked = question(model, options, ranks, perByte);
    asked.steps = 1;
    asked.message = [&](int src, int dst, double) { return src == from && dst == to ? 4.0 : 1.0; };
    if (options.strategy == "ps") return servedSteps(asked).seconds;
    double end = 0;
    for (const model::TaskTime& time : simulatedSteps(asked).graph.times())
      end = std::max(end, time.end);
    return end;
  };
  CHECK(seconds("pipeline", 0, 2, 2) == 2); // an activation and a gradient
  CHECK(seconds("pipeline", 0, 1, 2) == 5);
  CHECK(seconds("pipeline", 1, 0, 2) == 5);
  CHECK(seconds("ps", 2, 1, 3) == 2); // a push and a pull
  CHECK(seconds("ps", 2, 0, 3) == 5);
  CHECK(seconds("ps", 0, 2, 3) == 5);
}

TEST_CASE("models have the weights and operations that their papers say", "[train]") {
  // ResNet-50: 25.557 M weights, of which batch norms have 53120; 4.09 G multiplications.
  const StepModel resnet = stepModel("resnet50", "", 32);
  CHECK(resnet.weights() == 25'557'032);
  CHECK(resnet.flops() == Approx(2 * 4.09e9).epsilon(0.01));
  const StepModel bert = stepModel("bert", "", 8);
  CHECK(static_cast<double>(bert.weights()) == Approx(336e6).epsilon(0.01));
  StepModel cnn = stepModel("cnn", "1x28x28", 64);
  timeByRate(cnn, 1e9);
  CHECK(cnn.forward() == Approx(cnn.flops() * 64 / 1e9));
  CHECK(cnn.backward() == Approx(2 * cnn.forward()));
  for (const char* shape : {"1x28", "1x28x28x1", "0x28x28", "x1x1", "1x28x9999"})
    CHECK_THROWS_AS(stepModel("cnn", shape, 1), Error);
}

TEST_CASE("simulate train: the lectures' BERT-Large on 1 to 8 GPUs, from assumed speeds",
          "[train]") {
  // 399, 214, 118 and 61 minutes: efficiency 1.00, 0.93, 0.85, 0.82. Assumed: the speed of a GPU
  // and micro-batches of 8. Fitted: 6 micro-batches, 1.25 GB/s.
  const Outcome outcome = shell(
      "$RONDO simulate train --model bert --samples 8 --accumulate 6 --tflops 2 --ideal 10,1.25 "
      "-p 1,2,4,8 --json");
  REQUIRE(outcome.status == 0);
  const auto rows = nlohmann::json::parse(outcome.out)["rows"];
  const double lecture[] = {1.00, 0.93, 0.85, 0.82};
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::abs(rows[i]["efficiency"].get<double>() - lecture[i]) < 0.005);
}

TEST_CASE("simulate train: table, JSON and trace", "[train]") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("trace.json");
  const std::string command =
      "$RONDO simulate train --model resnet50 --tflops 10 --bucket-cap 25M -p 4 --ideal 5,10 ";
  const Outcome table = shell(command + "--trace " + trace);
  REQUIRE(table.status == 0);
  CHECK(table.out.find("assumed, 10 TFLOP/s") != std::string::npos);
  CHECK(table.out.find("AllReduce bucket 0") != std::string::npos);
  const auto events = nlohmann::json::parse(readFile(trace))["traceEvents"];
  std::set<std::string> names;
  for (const auto& event : events)
    if (event["ph"] == "M") names.insert(event["args"]["name"]);
  CHECK(names == std::set<std::string>{"rank 0", "passes", "network", "collectives"});

  const auto json = nlohmann::json::parse(shell(command + "--json").out);
  const auto& row = json["rows"][0];
  const double step = row["step_us"], passes = row["passes_us"], sent = row["communication_us"];
  CHECK(passes == Approx(json["forward_us"].get<double>() + json["backward_us"].get<double>()));
  CHECK(step > std::max(passes, sent));
  CHECK(step < passes + sent);
  double bytes = 0;
  for (const auto& call : row["collectives"]) bytes += call["bytes"].get<double>();
  CHECK(bytes == Approx(4 * json["weights"].get<double>()).epsilon(0.001));
  CHECK(sent == Approx(row["collectives"].size() * 6 * 5 + 1.5 * bytes * 1e-4).epsilon(0.001));
}

TEST_CASE("simulate train: only strategies that do not overlap are said not to", "[train]") {
  for (const char* strategy : {"ddp", "local", "fsdp", "pipeline", "ps"}) {
    const Outcome outcome =
        shell(std::string("$RONDO simulate train --model mlp --tflops 1 -p 2 ") + "--strategy " +
              strategy);
    INFO(strategy << ": " << outcome.out << outcome.err);
    CHECK(outcome.status == 0);
    const bool overlaps = std::string(strategy) == "pipeline" || std::string(strategy) == "ps";
    CHECK(countOf(outcome.out, "so nothing overlaps") == (overlaps ? 0 : 1));
  }
}

TEST_CASE("simulate train: wrong options are refused", "[train]") {
  const TemporaryFolder folder;
  const std::string wrong = folder.file("wrong.json");
  std::ofstream(wrong)
      << "{\"version\": 1,\n\"options\": {\"model\": \"mlp\", \"accumulate\": 1, \"batch\": 32},\n"
         "\"step_parts_ms\": {},\n\"ranks\": 2}\n";
  const std::pair<std::string, std::string> refused[] = {
      {"--strategy tensor --tflops 1", "is not simulated; valid: ddp"},
      {"--strategy ddp --period 3 --tflops 1", "takes no period"},
      {"--model bert", "use --tflops"},
      {"--model gpt --tflops 1", "gpt not in"},
      {"--tflops 0", "must be finite and above 0"},
      {"--tflops nan", "must be finite and above 0"},
      {"--tflops 1 --optimizer-ms -1", "--optimizer-ms: Value -1 not in range"},
      {"--tflops 1 --strategy ps --optimizer-ms -5", "--optimizer-ms: Value -5 not in range"},
      {"--tflops 1 --samples 100000 -p 50000", "5000000000 samples in a step of 50000 ranks"},
      {"--times " + wrong, wrong + ":4: ranks is 2"},
      {"--times /nowhere.json", "/nowhere.json: No such file"},
      {"--tflops 1 -p 8 --per-node 3", "do not fill nodes"},
      {"--tflops 1 --algorithm rings", "ring"},
      {"--tflops 1 -p 2,4 --trace /tmp/x", "need one number of ranks"},
      {"--tflops 1 --slow 7:2", "slow"},
      {"--tflops 1 --straggler 1=5", "--straggler"},
      {"--tflops 1 --strategy ps --slow-link 9-0=2", "there is no rank 9"},
      {"--tflops 1 --model mlp --strategy pipeline --dead-link 0-1", "rank 0 to rank 1 is dead"},
      {"--tflops 1 --strategy pipeline --model mlp -p 9", "can be cut into"}};
  for (const auto& [options, text] : refused) {
    const Outcome outcome = shell("$RONDO simulate train " + options);
    INFO(options << ": " << outcome.err << outcome.out);
    CHECK(outcome.status != 0);
    CHECK((outcome.err + outcome.out).find(text) != std::string::npos);
  }
}

} // namespace rondo::test
