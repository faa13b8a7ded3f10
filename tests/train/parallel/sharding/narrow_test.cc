// Tests mixed precision of sharded training (bfloat16 when sent, float32 when stored), and that the
// timeline shows which collectives overlap with which passes.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "rondo/train.h"
#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/parallel/sharding/narrow.h"

namespace rondo::test {

TEST_CASE("values are converted to bfloat16 and back in place, each rounded to nearest") {
  std::mt19937 random(5);
  training::Narrow narrow;
  for (std::size_t count : {0, 16, 496, 512, 528, 1024, 1040, 5008}) {
    std::vector<float> values(count), expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())),
                             static_cast<int>(random() % 40) - 50);
      const auto bits = std::bit_cast<std::uint32_t>(values[i]);
      expected[i] = std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000U);
    }
    narrow.narrow(values.data(), count, values.data());
    if (count > 0) // place() of no memory is undefined
      std::memmove(training::Narrow::place(values.data(), count), values.data(), 2 * count);
    narrow.widen(values.data(), count);
    INFO(count);
    REQUIRE(values == expected);
  }
}

#ifdef RONDO_HAVE_DNNL

namespace {

TrainOptions narrowRun() {
  TrainOptions options = smallRun();
  options.strategy = "fsdp";
  options.sharding.unit_bytes = 16 << 10;
  options.gradients.hook = "bf16";
  return options;
}

std::vector<double> lossesOf(int ranks, const TrainOptions& options) {
  std::vector<double> all;
  trainAll(makeRanks(ranks), options,
           [&all](const TrainProgress& progress) { all.push_back(progress.loss); });
  return all;
}

} // namespace

TEST_CASE("sending bfloat16 costs little accuracy and half the bytes", "[sums]") {
  for (int ranks : {1, 2, 3, 4}) {
    TrainOptions options = narrowRun();
    options.accumulate = ranks == 2 ? 2 : 1;
    const std::vector<double> narrow = lossesOf(ranks, options);
    const TrainReport report = trainAll(makeRanks(ranks), options);
    options.gradients.hook = "none";
    const std::vector<double> wide = lossesOf(ranks, options);
    const TrainReport whole = trainAll(makeRanks(ranks), options);
    INFO(ranks << " ranks");
    REQUIRE(narrow.size() == wide.size());
    for (std::size_t i = 0; i < wide.size(); ++i)
      REQUIRE(std::abs(narrow[i] - wide[i]) < 0.02 * wide[i]);
    REQUIRE(narrow != wide);
    REQUIRE(report.bytes_per_step == whole.bytes_per_step / 2);
    REQUIRE(report.held_bytes > whole.held_bytes); // by half of a shard's parameters
    REQUIRE(report.held_bytes < whole.held_bytes + 200'000 / static_cast<std::size_t>(ranks));
  }
  // Sums between groups stay float32.
  TrainOptions options = narrowRun();
  options.sharding.mesh = "data=2,shard=2";
  const std::vector<double> narrow = lossesOf(4, options);
  options.gradients.hook = "none";
  const std::vector<double> wide = lossesOf(4, options);
  for (std::size_t i = 0; i < wide.size(); ++i)
    REQUIRE(std::abs(narrow[i] - wide[i]) < 0.02 * wide[i]);
}

TEST_CASE("master weights keep moves that are too small for bfloat16, also in a checkpoint",
          "[sums]") {
  TemporaryFolder folder;
  TrainOptions options = narrowRun();
  options.optimizer.learning_rate = 1e-6; // the next bfloat16 value is 1/256 of a weight away
  options.optimizer.momentum = 0;
  const auto weights = [&](int steps) {
    options.steps = steps;
    options.files.checkpoint = folder.file("steps" + std::to_string(steps));
    trainAll(makeRanks(3), options);
    return readRaw(options.files.checkpoint);
  };
  const Bytes one = weights(1), two = weights(2);
  REQUIRE(one.size() == two.size());
  std::size_t differ = 0;
  for (std::size_t i = 0; i < one.size(); ++i) differ += one[i] != two[i];
  REQUIRE(differ > one.size() / 10);
  options.optimizer.learning_rate = 0.02;
  options.optimizer.momentum = 0.9;
  const Bytes whole = weights(4);
  options.files.checkpoint = folder.file("part");
  options.steps = 2;
  trainAll(makeRanks(3), options);
  options.steps = 4;
  options.files.resume = true;
  trainAll(makeRanks(3), options);
  REQUIRE((readRaw(folder.file("part")) == whole));
}

TEST_CASE("other hooks of sharded strategies are refused by name") {
  auto ranks = makeRanks(2);
  for (const auto& [strategy, hook, complaint] : std::vector<std::array<std::string, 3>>{
           {"fsdp", "fp16", "strategy fsdp takes none and bf16"},
           {"fsdp", "topk:0.1", "strategy fsdp takes none and bf16"},
           {"zero2", "bf16", "strategy zero2 takes no hook"}}) {
    TrainOptions options = narrowRun();
    options.strategy = strategy;
    options.gradients.hook = hook;
    if (strategy != "fsdp") options.sharding.unit_bytes = TrainOptions().sharding.unit_bytes;
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    INFO(thrown.text);
    REQUIRE(thrown.code == ErrorCode::invalid_argument);
    REQUIRE(contains(thrown.text, complaint));
  }
}

TEST_CASE("the trace shows the next unit in flight while a pass goes on") {
  TemporaryFolder folder;
  for (const std::string strategy : {"fsdp", "zero2"}) {
    TrainOptions options = smallRun();
    options.strategy = strategy;
    if (strategy == "fsdp") options.sharding.unit_bytes = 16 << 10;
    options.files.trace = folder.file(strategy);
    options.sharding.mesh = "data=2,shard=2";
    trainAll(makeRanks(4), options);
    std::ifstream file(options.files.trace);
    const auto events = nlohmann::json::parse(file)["traceEvents"];
    struct Pass {
      double begin, end;
    };
    std::map<std::pair<int, int>, Pass> forward, backward; // by rank and step
    for (const auto& event : events) {
      if (event["ph"] != "X") continue;
      const std::pair key{event["pid"].get<int>(), event["args"]["step"].get<int>()};
      const double begin = event["ts"];
      if (event["name"] == "forward") forward[key] = {begin, begin + event["dur"].get<double>()};
      if (event["name"] == "backward") backward[key] = {begin, begin + event["dur"].get<double>()};
    }
    int prefetched = 0, reduced = 0, between = 0;
    for (const auto& event : events) {
      if (event["ph"] != "X" || event["cat"] != "communication") continue;
      const std::pair key{event["pid"].get<int>(), event["args"]["step"].get<int>()};
      const std::string name = event["name"];
      const double begin = event["ts"];
      const auto within = [&](const Pass& pass) { return begin > pass.begin && begin < pass.end; };
      REQUIRE(event["args"]["bytes"] > 0);
      prefetched += name == "gather unit 2" && within(forward.at(key));
      reduced += name == (strategy == "fsdp" ? "reduce unit 1" : "reduce unit 0") &&
                 within(backward.at(key));
      between += name.starts_with("between groups, unit");
    }
    INFO(strategy);
    const int observed = static_cast<int>(forward.size());
    REQUIRE(observed >= 4);
    // After an evaluation some units are still in their slots.
    if (strategy == "fsdp") REQUIRE(prefetched > observed / 2);
    else REQUIRE(prefetched == 0);
    REQUIRE(reduced == observed);
    REQUIRE(between >= (strategy == "fsdp" ? 2 : 1) * observed);
  }
}

#endif

} // namespace rondo::test
