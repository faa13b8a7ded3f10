// Compares layers that multiply bfloat16 with the same layers in float32.
#include <barrier>
#include <cmath>
#include <limits>
#include <thread>

#include "support/bfloat16.h"
#include "support/test.h"
#include "train/layers/owner.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kClasses = 5, kCount = 24;
constexpr SampleShape kShape = {3, 12, 12};

/// Every kind of layer. All but the first and those after the last dropout have bfloat16 input.
/// Includes numbers of channels that do not fill a vector.
LayerValues everyLayer() {
  const Convolution same{33, {.kernel = 3, .padding = 1}, false};
  const Residual block{{same, BatchNorm{}, Relu{}, same, BatchNorm{}}, {}};
  const Residual wider{
      {Convolution{48, {.kernel = 3, .stride = 2, .padding = 1}, false}, BatchNorm{}},
      {Convolution{48, {.kernel = 1, .stride = 2}}}};
  return {BatchNorm{},
          Convolution{33, {.kernel = 3, .padding = 1}},
          MaxPool{{2, 2}},
          Relu{},
          block,
          Relu{},
          wider,
          AveragePool{{2, 2}},
          Relu{},
          Convolution{5, {.kernel = 1}},
          GlobalAveragePool{},
          Linear{40},
          Relu{},
          Dropout{0.2},
          Linear{kClasses}};
}

/// A model that flattens its places instead of averaging them.
LayerValues flattened() {
  return {Convolution{8, {.kernel = 3}},  Relu{},    Dropout{0.1},
          Convolution{16, {.kernel = 3}}, Flatten{}, Linear{kClasses}};
}

struct Outcome {
  double loss = 0, evaluated = 0;
  std::vector<std::vector<float>> gradients;
};

Outcome outcome(const LayerValues& layers, Precision precision, const Pass& pass = {},
                std::uint32_t first = 0, std::size_t count = kCount) {
  Network network(layers, kShape, kAllLayers, precision);
  const Owner owner(network, 3);
  const MadeUp samples(kShape, kClasses, count, first);
  Outcome result;
  result.loss = network.forward(samples.batch(), pass);
  network.backward([](std::size_t) {});
  for (const Weight* weight : network.weights())
    result.gradients.emplace_back(weight->gradient, weight->gradient + weight->size());
  network.moveState(count);
  result.evaluated = network.evaluate(samples.batch()).loss;
  return result;
}

/// The length of the difference, relative to the length of `a`.
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, length = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    length += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(difference / length);
}

} // namespace

TEST_CASE("in bfloat16 losses and gradients of every layer equal float32's except for rounding") {
  if (!hasBfloat16()) return;
  for (const LayerValues& layers : {everyLayer(), flattened()})
    for (const std::size_t count : {kCount, std::size_t{5}}) {
      const Outcome floats = outcome(layers, Precision::float32, {}, 0, count);
      const Outcome narrow = outcome(layers, Precision::bfloat16, {}, 0, count);
      INFO(layers.size() << " layers, " << count << " samples");
      CHECK(narrow.loss != floats.loss);
      CHECK(narrow.loss == Approx(floats.loss).epsilon(0.02));
      CHECK(narrow.evaluated != floats.evaluated);
      CHECK(narrow.evaluated == Approx(floats.evaluated).epsilon(0.02));
      double all = 0;
      for (std::size_t i = 0; i < floats.gradients.size(); ++i) {
        const double distance = apart(floats.gradients[i], narrow.gradients[i]);
        INFO("weight " << i);
        CHECK(distance > 1e-5);
        CHECK(distance < 0.2);
        all += distance;
      }
      CHECK(all / static_cast<double>(floats.gradients.size()) < 0.05);
    }
}

TEST_CASE("in bfloat16 the same weights and samples give the same bits") {
  if (!hasBfloat16()) return;
  const Outcome one = outcome(everyLayer(), Precision::bfloat16);
  const Outcome other = outcome(everyLayer(), Precision::bfloat16);
  CHECK(one.loss == other.loss);
  CHECK((one.gradients == other.gradients));
}

TEST_CASE("in bfloat16 batch norm over ranks gives the results of the whole batch") {
  if (!hasBfloat16()) return;
  const LayerValues layers = {Convolution{16, {.kernel = 3, .padding = 1}},
                              BatchNorm{},
                              Relu{},
                              Convolution{16, {.kernel = 3, .padding = 1}},
                              BatchNorm{},
                              Flatten{},
                              Linear{kClasses}};
  const Outcome whole = outcome(layers, Precision::bfloat16);
  std::vector<float> sums[2];
  std::barrier<> both(2);
  std::vector<Outcome> parts(2);
  const auto run = [&](std::size_t rank) {
    const Pass pass{.seed = 0, .sum_over_ranks = [&, rank](float* values, std::size_t count) {
                      sums[rank].assign(values, values + count);
                      both.arrive_and_wait();
                      for (std::size_t i = 0; i < count; ++i) values[i] = sums[0][i] + sums[1][i];
                      both.arrive_and_wait();
                    }};
    const std::size_t first = kCount / 3;
    parts[rank] = rank == 0 ? outcome(layers, Precision::bfloat16, pass, 0, first)
                            : outcome(layers, Precision::bfloat16, pass,
                                      static_cast<std::uint32_t>(first), kCount - first);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  CHECK(parts[0].loss + parts[1].loss == Approx(whole.loss).epsilon(0.01));
  for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
    std::vector<float> sum = parts[0].gradients[i];
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += parts[1].gradients[i][k];
    INFO("weight " << i);
    // The gradient of a bias before batch norm is zero, except for rounding.
    if (i != 1 && i != 5) CHECK(apart(whole.gradients[i], sum) < 0.03);
  }
}

TEST_CASE("in bfloat16 the first layer with values that are not finite is named") {
  if (!hasBfloat16()) return;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Network network({BatchNorm{}, Convolution{16, {.kernel = 3}}, AveragePool{{2}}, Flatten{},
                     Linear{kClasses}},
                    kShape, kAllLayers, Precision::bfloat16);
    const Owner owner(network);
    const MadeUp samples(kShape, kClasses, kCount);
    network.forward(samples.batch(), {});
    CHECK(network.firstNotFinite() == "the loss");
    network.weights()[2]->value[7] = bad; // the filter
    network.weightsChanged();
    network.forward(samples.batch(), {});
    CHECK(network.firstNotFinite() == "layer 1");
  }
}

} // namespace rondo::test
