// Tests where models are cut: units that stay together, and parts with equal costs.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "support/test.h"
#include "train/layers/node.h"
#include "train/models/model.h"
#include "train/parallel/pipeline/cut.h"
#include "train/random.h"

namespace rondo::test {
namespace {

using namespace training;

std::vector<std::size_t> begins(const std::vector<LayerRange>& ranges) {
  std::vector<std::size_t> result;
  for (const LayerRange& range : ranges) result.push_back(range.begin);
  return result;
}

double worst(const std::vector<double>& costs, const std::vector<LayerRange>& ranges) {
  double most = 0;
  for (const LayerRange& range : ranges)
    most = std::max(most,
                    std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(range.begin),
                                    costs.begin() + static_cast<std::ptrdiff_t>(range.end), 0.0));
  return most;
}

/// The minimum, over all ways to cut, of the cost of the most expensive part. By brute force.
double best(const std::vector<double>& costs, std::size_t begin, std::size_t parts) {
  if (parts == 1)
    return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(begin), costs.end(), 0.0);
  double least = 1e300, first = 0;
  for (std::size_t end = begin + 1; end + parts - 1 <= costs.size(); ++end) {
    first += costs[end - 1];
    least = std::min(least, std::max(first, best(costs, end, parts - 1)));
  }
  return least;
}

} // namespace

TEST_CASE("units begin with a layer that has weights, and cover a model once") {
  const auto of = [](const char* name, const SampleShape& shape) {
    const LayerValues layers = model(name, shape, 10);
    const std::vector<LayerRange> all = units(layers);
    REQUIRE(all.front().begin == 0);
    REQUIRE(all.back().end == layers.size());
    for (std::size_t i = 1; i < all.size(); ++i) REQUIRE(all[i].begin == all[i - 1].end);
    return begins(all);
  };
  CHECK(of("mlp", {1, 28, 28}) == std::vector<std::size_t>{0, 3, 5, 7}); // Flatten, Linear, Relu
  CHECK(of("cnn", {1, 28, 28}) ==
        std::vector<std::size_t>{0, 3, 7, 9}); // a pool stays with the layers before it
  // Convolution, BatchNorm, Relu; then residuals, each with the Relu after it; then the head.
  CHECK(of("resnet18", {3, 32, 32}) == std::vector<std::size_t>{0, 3, 5, 7, 9, 11, 13, 15, 17, 21});
}

TEST_CASE("a wait for a GPU counts as time of its pass, a wait of the CPU does not") {
  const auto waited = [](const Compute& compute) {
    const double begin = passClock(compute);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return passClock(compute) - begin;
  };
  Compute device;
  device.gpu.emplace();
  CHECK(waited(device) >= 0.05);
  CHECK(waited({}) < 0.05);
}

TEST_CASE("stages of a model with equal layers have equal costs") {
  const SampleShape shape{2, 16, 16};
  const LayerValues layers = model("even", shape, 10);
  Weights weights;
  const std::vector<Node> nodes = place(layers, shape, "", weights);
  // Weights of each unit: equal, except for the last unit with the classes.
  std::vector<double> costs;
  for (const LayerRange& unit : units(layers)) {
    costs.push_back(0);
    for (std::size_t layer = unit.begin; layer < unit.end; ++layer)
      for (const Weight* weight : nodes[layer].weights)
        costs.back() += static_cast<double>(weight->size());
  }
  REQUIRE(costs.size() == 17);
  for (std::size_t parts : {2, 4, 8}) {
    const double most = worst(costs, cutEvenly(costs, parts));
    CHECK(most <=
          1.01 * std::accumulate(costs.begin(), costs.end(), 0.0) / static_cast<double>(parts));
  }
}

TEST_CASE(
    "parts are consecutive and not empty, and no other cut has a cheaper most expensive part") {
  Random random(3);
  for (std::size_t items = 1; items <= 9; ++items)
    for (std::size_t parts = 1; parts <= items; ++parts)
      for (int round = 0; round < 10; ++round) {
        std::vector<double> costs(items);
        for (double& cost : costs) cost = random.below(20);
        const std::vector<LayerRange> ranges = cutEvenly(costs, parts);
        INFO(items << " items, " << parts << " parts");
        REQUIRE(ranges.size() == parts);
        REQUIRE(ranges.front().begin == 0);
        REQUIRE(ranges.back().end == items);
        for (std::size_t i = 0; i < parts; ++i) {
          REQUIRE(ranges[i].begin < ranges[i].end);
          if (i > 0) REQUIRE(ranges[i].begin == ranges[i - 1].end);
        }
        REQUIRE(worst(costs, ranges) == best(costs, 0, parts));
      }
}

} // namespace rondo::test
