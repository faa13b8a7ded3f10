#include "train/parallel/pipeline/cut.h"

#include <time.h>

#include <algorithm>
#include <cassert>
#include <deque>
#include <limits>
#include <numeric>

#include "train/random.h"

namespace rondo::training {

double passClock(const Compute& compute) {
  timespec now{};
  clock_gettime(compute.gpu ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

namespace {

bool beginsUnit(const LayerValue& layer) {
  return std::holds_alternative<Linear>(layer) || std::holds_alternative<Convolution>(layer) ||
         std::holds_alternative<Residual>(layer);
}

constexpr int kPasses = 4; ///< the first pass builds the program and is slower

void fill(AlignedVector<float>& values, Random& random) {
  for (float& value : values) value = static_cast<float>(random.symmetric());
}

/// Allocates and initialises the weights of one unit. Network::initialise() would draw random
/// values for all other layers too.
class UnitMemory {
 public:
  explicit UnitMemory(Network& unit) {
    Random random(1);
    for (const auto& weights : {unit.weights(), unit.state()})
      for (Weight* weight : weights) {
        weight->value = make(weight->size());
        weight->gradient = make(weight->size());
        for (std::size_t i = 0; i < weight->size(); ++i)
          weight->value[i] =
              static_cast<float>(weight->start + weight->spread * random.symmetric());
      }
  }

 private:
  float* make(std::size_t count) { return memory_.emplace_back(count).data(); }

  std::deque<AlignedVector<float>> memory_;
};

UnitTime measureOne(Network& network, std::size_t samples, const Compute& compute) {
  const UnitMemory memory(network);
  AlignedVector<float> inputs(samples * network.inputShape().size()),
      gradient(samples * network.outputShape().size());
  Random random(1);
  fill(inputs, random);
  fill(gradient, random);
  const std::vector<std::uint8_t> labels(samples);
  std::vector<std::uint32_t> numbers(samples);
  std::iota(numbers.begin(), numbers.end(), 0U);
  const Batch batch{samples, inputs.data(), labels.data(), numbers.data()};
  UnitTime best{std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  for (int pass = 0; pass < kPasses; ++pass) {
    const double begin = passClock(compute);
    network.forward(batch, {});
    const double middle = passClock(compute);
    network.backward(
        gradient.data(), [](std::size_t) {}, 0);
    best = {std::min(best.forward, middle - begin),
            std::min(best.backward, passClock(compute) - middle)};
  }
  return best;
}

} // namespace

std::vector<LayerRange> units(const LayerValues& layers) {
  std::vector<LayerRange> all;
  bool learns = false; // the current unit already has the layer that begins a unit
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool begins = beginsUnit(layers[i]);
    if (all.empty() || (begins && learns)) {
      all.push_back({i, i});
      learns = false;
    }
    learns = learns || begins;
    all.back().end = i + 1;
  }
  return all;
}

std::vector<UnitTime> measure(const LayerValues& layers, const SampleShape& input,
                              std::span<const LayerRange> units, std::size_t samples,
                              Compute compute) {
  std::vector<UnitTime> times;
  for (const LayerRange& range : units) {
    Network unit(layers, input, range, compute);
    times.push_back(measureOne(unit, samples, compute));
  }
  return times;
}

std::vector<LayerRange> cutEvenly(std::span<const double> costs, std::size_t parts) {
  const std::size_t items = costs.size();
  assert(parts >= 1 && parts <= items);
  std::vector<double> before(items + 1); // sum of the costs of the first i items
  std::partial_sum(costs.begin(), costs.end(), before.begin() + 1);
  // best[k][i]: the cost of the most expensive part if the first i items are cut into k parts as
  // evenly as possible; from[k][i]: where the last of these parts begins.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(parts + 1, std::vector<double>(items + 1, kNever));
  std::vector<std::vector<std::size_t>> from(parts + 1, std::vector<std::size_t>(items + 1));
  best[0][0] = 0;
  for (std::size_t k = 1; k <= parts; ++k)
    for (std::size_t i = k; i <= items; ++i)
      for (std::size_t begin = k - 1; begin < i; ++begin) {
        const double cost = std::max(best[k - 1][begin], before[i] - before[begin]);
        if (cost < best[k][i]) {
          best[k][i] = cost;
          from[k][i] = begin;
        }
      }
  std::vector<LayerRange> ranges(parts);
  std::size_t end = items;
  for (std::size_t k = parts; k > 0; --k) {
    ranges[k - 1] = {from[k][end], end};
    end = from[k][end];
  }
  return ranges;
}

} // namespace rondo::training
