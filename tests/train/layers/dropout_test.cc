// Tests dropout: dropped values depend on seed, layer and sample number, and gradients are dropped
// like values.
#include <cmath>

#include "rondo/error.h"
#include "support/test.h"
#include "train/layers/owner.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kFeatures = 64, kClasses = 3;
constexpr double kRate = 0.25;

/// A first layer that outputs 1 everywhere, dropout, and a second layer.
class Probe {
 public:
  explicit Probe(const LayerValues& between = {Dropout{kRate}})
      : network_(layers(between), {2, 1, 1}), owner_(network_) {
    const Weight &weight = *network_.weights()[0], &bias = *network_.weights()[1];
    std::fill_n(weight.value, weight.size(), 0.0F);
    std::fill_n(bias.value, bias.size(), 1.0F);
    network_.weightsChanged();
  }

  /// The factor of each feature of a sample, derived from gradients.
  std::vector<float> factors(std::uint64_t seed, std::uint32_t sample) {
    pass(seed, sample, 1);
    const Weight &weight = *network_.weights()[2], &bias = *network_.weights()[3];
    std::vector<float> result;
    for (std::size_t i = 0; i < kFeatures; ++i)
      result.push_back(std::round(weight.gradient[i] / bias.gradient[0] * 1e4F) / 1e4F);
    return result;
  }

  double pass(std::uint64_t seed, std::uint32_t first, std::size_t count) {
    const MadeUp samples({2, 1, 1}, kClasses, count, first);
    const double loss = network_.forward(samples.batch(), {.seed = seed, .sum_over_ranks = {}});
    network_.backward([](std::size_t) {});
    return loss;
  }

  Network& network() { return network_; }

 private:
  static LayerValues layers(const LayerValues& between) {
    LayerValues all = {Linear{kFeatures}};
    all.insert(all.end(), between.begin(), between.end());
    all.emplace_back(Linear{kClasses});
    return all;
  }

  Network network_;
  Owner owner_;
};

} // namespace

TEST_CASE("dropout drops about its share and scales up the remaining values") {
  Probe probe;
  std::size_t dropped = 0;
  for (std::uint32_t sample = 0; sample < 100; ++sample)
    for (const float factor : probe.factors(1, sample)) {
      CHECK((factor == 0 || factor == 1.3333F));
      dropped += factor == 0 ? 1 : 0;
    }
  CHECK(dropped > 1400); // of 6400; a quarter is 1600, with a standard deviation of 35
  CHECK(dropped < 1800);
}

TEST_CASE("dropped values depend on the seed, the sample and the layer") {
  Probe probe, later({Relu{}, Dropout{kRate}});
  const auto one = probe.factors(1, 5);
  CHECK(probe.factors(1, 5) == one);
  CHECK(Probe().factors(1, 5) == one);
  CHECK(probe.factors(2, 5) != one);
  CHECK(probe.factors(1, 6) != one);
  CHECK(later.factors(1, 5) != one);
}

TEST_CASE("dropped values of a sample do not depend on the other samples of its batch") {
  Probe probe;
  double alone = 0;
  for (std::uint32_t sample = 20; sample < 28; ++sample) alone += probe.pass(3, sample, 1);
  CHECK(probe.pass(3, 20, 8) == Approx(alone).epsilon(1e-6));
  CHECK(probe.pass(3, 20, 3) + probe.pass(3, 23, 5) == Approx(alone).epsilon(1e-6));
  CHECK(std::abs(probe.pass(4, 20, 8) - alone) > 1e-3);
}

TEST_CASE("the gradient is dropped and scaled like the value") {
  Probe probe;
  const auto factors = probe.factors(1, 9);
  const auto weights = probe.network().weights();
  const Weight &first_bias = *weights[1], &second = *weights[2], &second_bias = *weights[3];
  for (std::size_t i = 0; i < kFeatures; ++i) {
    double expected = 0;
    for (std::size_t c = 0; c < kClasses; ++c)
      expected += static_cast<double>(second.value[c * kFeatures + i] * second_bias.gradient[c]);
    CHECK(static_cast<double>(first_bias.gradient[i]) ==
          Approx(expected * static_cast<double>(factors[i])).epsilon(1e-4));
  }
}

TEST_CASE("evaluation drops nothing") {
  Probe probe;
  Network without({Linear{kFeatures}, Linear{kClasses}}, {2, 1, 1});
  const Owner owner(without);
  for (std::size_t i = 0; i < 4; ++i)
    std::copy_n(probe.network().weights()[i]->value, probe.network().weights()[i]->size(),
                without.weights()[i]->value);
  without.weightsChanged();
  const MadeUp samples({2, 1, 1}, kClasses, 5);
  CHECK(probe.network().evaluate(samples.batch()).loss == without.evaluate(samples.batch()).loss);
}

TEST_CASE("a rate that would drop everything is refused") {
  for (const double rate : {-0.1, 1.0, std::nan("")})
    CHECK_THROWS_AS(Network({Dropout{rate}, Linear{2}}, {2, 1, 1}), Error);
}

} // namespace rondo::test
