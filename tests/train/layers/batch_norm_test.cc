// Tests batch norm's statistics: running statistics, evaluation with them, and statistics over all
// ranks.
#include <cmath>
#include <thread>

#include "support/test.h"
#include "train/layers/owner.h"
#include "train/layers/rank_sum.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kClasses = 3, kChannels = 6;
constexpr SampleShape kShape = {kChannels, 3, 2};

/// The mean and the unbiased variance of a channel of the inputs.
std::pair<double, double> statistics(const MadeUp& samples, std::size_t channel) {
  const std::size_t area = kShape.height * kShape.width;
  std::vector<double> values;
  for (std::size_t n = 0; n < samples.labels.size(); ++n)
    for (std::size_t p = 0; p < area; ++p)
      values.push_back(static_cast<double>(samples.inputs[n * kShape.size() + channel * area + p]));
  double mean = 0, variance = 0;
  for (double value : values) mean += value / static_cast<double>(values.size());
  for (double value : values)
    variance += (value - mean) * (value - mean) / static_cast<double>(values.size() - 1);
  return {mean, variance};
}

LayerValues normFirst() { return {BatchNorm{}, Flatten{}, Linear{kClasses}}; }

struct Outcome {
  double loss = 0;
  std::vector<double> gradients, statistics;
};

Outcome outcome(Network& network, const MadeUp& samples, const Pass& pass) {
  Outcome result{.loss = network.forward(samples.batch(), pass), .gradients = {}, .statistics = {}};
  network.backward([](std::size_t) {});
  for (const Weight* weight : network.weights())
    result.gradients.insert(result.gradients.end(), weight->gradient,
                            weight->gradient + weight->size());
  for (const Weight* weight : network.state())
    result.statistics.insert(result.statistics.end(), weight->gradient,
                             weight->gradient + weight->size());
  return result;
}

} // namespace

TEST_CASE("a training pass returns sums of the samples' statistics, moveState adds a tenth") {
  Network network(normFirst(), kShape);
  const Owner owner(network);
  const auto state = network.state();
  CHECK(state[0]->name == "0.running_mean");
  CHECK(state[1]->name == "0.running_var");
  const MadeUp samples(kShape, kClasses, 4);
  network.forward(samples.batch(), {});
  for (std::size_t c = 0; c < kChannels; ++c) {
    const auto [mean, variance] = statistics(samples, c);
    CHECK(static_cast<double>(state[0]->gradient[c]) == Approx(4 * mean).margin(1e-6));
    CHECK(static_cast<double>(state[1]->gradient[c]) == Approx(4 * variance).epsilon(1e-5));
    CHECK(state[0]->value[c] == 0);
    CHECK(state[1]->value[c] == 1);
  }
  for (Weight* weight : state) // as if a second batch had the same statistics
    for (std::size_t c = 0; c < kChannels; ++c) weight->gradient[c] *= 2;
  network.moveState(8);
  for (std::size_t c = 0; c < kChannels; ++c) {
    const auto [mean, variance] = statistics(samples, c);
    CHECK(static_cast<double>(state[0]->value[c]) == Approx(0.1 * mean).margin(1e-6));
    CHECK(static_cast<double>(state[1]->value[c]) == Approx(0.9 + 0.1 * variance).epsilon(1e-5));
  }
}

TEST_CASE("without memory for a batch's statistics a pass updates the running ones") {
  Network network(normFirst(), kShape), other(normFirst(), kShape);
  const Owner owner(network), others(other);
  const MadeUp samples(kShape, kClasses, 4);
  other.forward(samples.batch(), {});
  other.moveState(4);
  for (Weight* weight : network.state()) weight->gradient = nullptr;
  network.forward(samples.batch(), {});
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t c = 0; c < kChannels; ++c)
      CHECK(static_cast<double>(network.state()[i]->value[c]) ==
            Approx(static_cast<double>(other.state()[i]->value[c])).epsilon(1e-6));
}

TEST_CASE("evaluation normalises by the running statistics") {
  Network network(normFirst(), kShape), plain({Flatten{}, Linear{kClasses}}, kShape);
  const Owner owner(network), owners(plain);
  MadeUp samples(kShape, kClasses, 5);
  for (std::size_t c = 0; c < kChannels; ++c) {
    network.state()[0]->value[c] = 0.1F * static_cast<float>(c);
    network.state()[1]->value[c] = 0.5F + static_cast<float>(c);
  }
  for (std::size_t i = 0; i < 2; ++i)
    std::copy_n(network.weights()[2 + i]->value, network.weights()[2 + i]->size(),
                plain.weights()[i]->value);
  plain.weightsChanged();
  network.weightsChanged();
  const double loss = network.evaluate(samples.batch()).loss;
  const std::size_t area = kShape.height * kShape.width;
  for (std::size_t i = 0; i < samples.inputs.size(); ++i) {
    const std::size_t c = i / area % kChannels;
    samples.inputs[i] = (samples.inputs[i] - network.state()[0]->value[c]) /
                        std::sqrt(network.state()[1]->value[c] + 1e-5F);
  }
  CHECK(loss == Approx(plain.evaluate(samples.batch()).loss).epsilon(1e-5));
}

TEST_CASE("synchronised over ranks, unequal parts of a batch give the results of the whole batch") {
  const Convolution before{32, {.kernel = 3, .padding = 1}};
  for (const LayerValues& layers : {normFirst(), LayerValues{before, BatchNorm{}, Relu{}, before,
                                                             BatchNorm{}, Flatten{}, Linear{3}}}) {
    Network whole(layers, kShape);
    const Owner owner(whole, 3);
    const Outcome wanted = outcome(whole, MadeUp(kShape, kClasses, 7), {});

    RankSum sum(2);
    std::vector<Outcome> parts(2);
    const auto run = [&](int rank) {
      Network network(layers, kShape);
      const Owner own(network, 3);
      const MadeUp samples(kShape, kClasses, rank == 0 ? 5 : 2, rank == 0 ? 0 : 5);
      const Pass pass{.seed = 0, .sum_over_ranks = [&](float* values, std::size_t count) {
                        sum(rank, values, count);
                      }};
      parts[static_cast<std::size_t>(rank)] = outcome(network, samples, pass);
    };
    std::thread second(run, 1);
    run(0);
    second.join();

    CHECK(parts[0].loss + parts[1].loss == Approx(wanted.loss).epsilon(1e-5));
    for (std::size_t i = 0; i < wanted.statistics.size(); ++i)
      CHECK(parts[0].statistics[i] + parts[1].statistics[i] ==
            Approx(wanted.statistics[i]).epsilon(1e-5).margin(1e-5));
    for (std::size_t i = 0; i < wanted.gradients.size(); ++i)
      REQUIRE(parts[0].gradients[i] + parts[1].gradients[i] ==
              Approx(wanted.gradients[i]).epsilon(1e-3).margin(2e-5));
  }
}

} // namespace rondo::test
