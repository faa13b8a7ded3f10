// Output of the benchmark and the trainer: columns that scripts parse, JSON, statistics.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/test.h"
#include "tools/bench/buffer.h"
#include "tools/bench/json.h"
#include "tools/bench/result.h"
#include "tools/bench/table.h"
#include "tools/train.h"
#include "tools/train_display.h"

namespace rondo::test {
namespace {

using namespace tools;

Timing timingOf(double time, std::optional<double> bus, std::optional<std::size_t> wrong) {
  Timing timing;
  timing.times = {time, time - 1, time, time + 1, time + 2, time + 3};
  timing.time = time;
  timing.alg_bw = 2.5;
  timing.bus_bw = bus;
  timing.wrong = wrong;
  return timing;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

TEST_CASE("A row has nccl-tests' 13 columns, for all values", "[table]") {
  for (const double time : {0.123, 4.5, 99.9, 1234.5, 98765.4, 5e6}) {
    for (const auto& bus : {std::optional<double>(1.5), std::optional<double>()}) {
      for (const auto& wrong : {std::optional<std::size_t>(0), std::optional<std::size_t>(7),
                                std::optional<std::size_t>()}) {
        for (const bool in_place : {false, true}) {
          Row row{4096, 1024, DataType::float32, ReduceOp::sum, -1, "ring", {}, {}};
          row.out_of_place = timingOf(time, bus, wrong);
          if (in_place) row.in_place = timingOf(time, bus, wrong);
          const auto columns = words(rowText(row));
          REQUIRE(columns.size() == 13);
          CHECK(columns[0] == "4096");
          CHECK(columns[1] == "1024");
          CHECK(columns[2] == "float");
          CHECK(columns[3] == "sum");
          CHECK(columns[4] == "-1");
          CHECK(std::stod(columns[5]) == Approx(time).epsilon(0.01));
          CHECK(columns[6] == "2.50");
          CHECK(columns[7] == (bus ? "1.50" : "n/a"));
          CHECK(columns[8] == (wrong ? std::to_string(*wrong) : "N/A"));
          CHECK(columns[9] == (in_place ? columns[5] : "N/A"));
          CHECK(columns[12] == (in_place ? columns[8] : "N/A"));
        }
      }
    }
  }
  Row moving{64, 16, DataType::float16, std::nullopt, 3, "tree", timingOf(1, 1, 0), {}};
  CHECK(words(rowText(moving))[3] == "none");
  CHECK(words(rowText(moving))[4] == "3");
}

TEST_CASE("The footer reports damage, wrong elements and the average", "[table]") {
  BenchConfig config;
  TableResult table;
  Row row{8, 2, DataType::float32, ReduceOp::sum, -1, "ring", timingOf(1, 2.0, 0), {}};
  row.in_place = timingOf(1, 4.0, 0);
  table.rows = {row};
  table.memory = 3 << 19;
  CHECK(footerText(config, table) ==
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3 OK\n"
        "# Memory of a rank     : 1.50 MiB at most\n#\n");
  table.out_of_bounds = 5;
  CHECK(footerText(config, table).find("# Out of bounds values : 5 FAILED") == 0);
  CHECK_FALSE(table.good());
  table.out_of_bounds = 0;
  table.rows[0].in_place->wrong = 3;
  CHECK_FALSE(table.good());
  CHECK(table.wrong() == 3);
  CHECK(footerText(config, table).find("3 FAILED") != std::string::npos);
  table.rows[0].in_place->bus_bw = table.rows[0].out_of_place->bus_bw = std::nullopt;
  CHECK_FALSE(table.averageBusBandwidth().has_value());
  CHECK(footerText(config, table).find("# Avg bus bandwidth    : n/a") != std::string::npos);
}

TEST_CASE("Every line that is not a row starts with '#'", "[table]") {
  for (const Collective collective : kCollectives) {
    BenchConfig config;
    config.collective = collective;
    Environment environment = describeMachine();
    environment.kind = "threads";
    environment.transport = "inproc";
    std::istringstream lines(headerText(config, environment) + titleText(config, "ring") +
                             footerText(config, {}));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.rfind('#', 0) == 0);
    }
  }
}

TEST_CASE("JSON: the structure that scripts for nccl-tests read, without environment variables",
          "[json]") {
  BenchConfig config;
  config.arguments = {"bench", "allreduce", "bad \xff utf-8"};
  Environment environment = describeMachine();
  TableResult ring{"ring", {}, 0}, tree{"tree", {}, 2};
  Row row{8, 2, DataType::float32, ReduceOp::sum, -1, "ring", timingOf(10, 2.0, 0), {}};
  ring.rows = {row};
  row.algorithm = "tree";
  row.in_place = timingOf(20, std::nullopt, std::nullopt);
  tree.rows = {row};
  const auto json = nlohmann::json::parse(jsonText(config, environment, {ring, tree}));
  REQUIRE(json.at("results").size() == 2);
  const auto& first = json.at("results").at(0);
  CHECK(first.at("size") == 8);
  CHECK(first.at("count") == 2);
  CHECK(first.at("type") == "float");
  CHECK(first.at("redop") == "sum");
  CHECK(first.at("root") == -1);
  CHECK(first.at("algorithm") == "ring");
  CHECK(first.at("in_place").is_null());
  const auto& timing = first.at("out_of_place");
  CHECK(timing.at("time") == 10.0);
  CHECK(timing.at("alg_bw") == 2.5);
  CHECK(timing.at("bus_bw") == 2.0);
  CHECK(timing.at("nwrong") == 0);
  for (const char* field : {"min", "max", "p50", "p95", "p99"}) CHECK(timing.at(field).is_number());
  CHECK(json.at("results").at(1).at("in_place").at("bus_bw").is_null());
  CHECK(json.at("results").at(1).at("in_place").at("nwrong").is_null());
  CHECK(json.at("out_of_bounds").at("count") == 2);
  CHECK(json.at("out_of_bounds").at("okay") == false);
  CHECK(json.at("average_bus_bandwidth").at("bandwidth") == 2.0);
  CHECK(json.at("config").at("collective") == "allreduce");
  CHECK_FALSE(json.contains("env"));
}

TEST_CASE("Percentiles are by nearest rank, for any order of samples", "[statistics]") {
  for (const std::size_t count : {1, 2, 3, 10, 99, 100, 101, 1000}) {
    std::vector<double> samples;
    for (std::size_t i = 0; i < count; ++i) {
      samples.push_back(static_cast<double>((i * 7919) % count + 1)); // 1..count, shuffled
    }
    std::sort(samples.begin(), samples.end());
    const bool permutation = std::adjacent_find(samples.begin(), samples.end()) == samples.end();
    REQUIRE(permutation);
    std::rotate(samples.begin(), samples.begin() + static_cast<long>(count / 2), samples.end());
    const Times times = summarize(samples);
    const auto n = static_cast<double>(count);
    INFO(count);
    CHECK(times.min == 1);
    CHECK(times.max == n);
    CHECK(times.mean == Approx((n + 1) / 2));
    CHECK(times.p50 == std::max(std::ceil(n * 50 / 100), 1.0));
    CHECK(times.p95 == std::ceil(n * 95 / 100));
    CHECK(times.p99 == std::ceil(n * 99 / 100));
  }
}

TEST_CASE("Guards detect every byte written next to a buffer", "[guards]") {
  for (const std::size_t bytes : {0, 1, 64, 1000, 4096}) {
    GuardedBuffer buffer(bytes);
    for (const std::size_t used : {std::size_t{0}, bytes / 2, bytes}) {
      buffer.guard(used);
      CHECK(buffer.damaged(used) == 0);
      std::fill(buffer.data(), buffer.data() + used, std::byte{1});
      CHECK(buffer.damaged(used) == 0);
      const auto guard = static_cast<std::ptrdiff_t>(GuardedBuffer::kGuardBytes);
      const auto end = static_cast<std::ptrdiff_t>(used);
      for (const std::ptrdiff_t at : {std::ptrdiff_t{-1}, -guard, end, end + guard - 1}) {
        buffer.guard(used);
        buffer.data()[at] ^= std::byte{0x10};
        CHECK(buffer.damaged(used) == 1);
      }
    }
  }
}

TEST_CASE("Training lines: the progress bar fits the line at every width and step", "[train]") {
  for (const std::size_t columns : {0, 10, 40, 80, 200}) {
    std::size_t filled = 0;
    for (int step = 0; step <= 100; ++step) {
      TrainProgress progress{1, 5, step, 100, 0.5, 12345, -1};
      const std::string line = progressLine(progress, columns);
      if (columns >= 80) CHECK(line.size() < columns);
      const auto now = static_cast<std::size_t>(std::count(line.begin(), line.end(), '='));
      CHECK(now >= filled);
      filled = now;
    }
    if (columns >= 80) CHECK(filled > 10);
  }
  TrainProgress ended{2, 5, 100, 100, 0.5, 12345, 0.8612, 0.4321};
  CHECK(epochLine(ended) == "epoch 2/5: loss 0.4321, test accuracy 0.8612, 12345 samples/s");
}

TEST_CASE("The training report as JSON contains the hash as text", "[train]") {
  TrainConfig config;
  config.options.epochs = 2;
  config.options.stragglers.slow = {{.rank = 1, .factor = 3}};
  config.options.stragglers.jitter = {.probability = 0.1, .factor = 2};
  TrainReport report;
  report.test_accuracy = 0.875;
  report.epoch_loss = {1.0, 0.5};
  report.epoch_accuracy = {0.8, 0.875};
  report.parameter_hash = 0xffffffffffffff01u;
  report.times = {.step = 5, .data = 0.5, .forward = 1, .backward = 2, .communication = 0.75};
  const auto json = nlohmann::json::parse(trainJsonText(config, report, 3));
  CHECK(json.at("test_accuracy") == 0.875);
  CHECK(json.at("epoch_loss").size() == 2);
  CHECK(json.at("epoch_accuracy").at(1) == 0.875);
  CHECK(json.at("parameter_hash") == "ffffffffffffff01");
  CHECK(json.at("ranks") == 3);
  CHECK(json.at("options").at("epochs") == 2);
  CHECK(json.at("options").at("slow") == nlohmann::json{{1, 3.0}});
  CHECK(json.at("options").at("jitter") == nlohmann::json{0.1, 2.0});
  CHECK(json.at("step_ms") == 5);
  config.options.data = "\xff"; // a path need not be UTF-8
  CHECK(nlohmann::json::accept(trainOptionsText(config)));
  CHECK(json.at("step_parts_ms").at("exposed_communication") == 0.75);
}

} // namespace
} // namespace rondo::test
