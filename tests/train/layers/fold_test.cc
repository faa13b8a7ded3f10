// Tests that folding batch norm into convolutions does not change results: evaluation is compared
// with the reference, which folds nothing, and an exported model with evaluation.
#include <algorithm>
#include <cmath>

#include "support/test.h"
#include "train/layers/owner.h"
#include "train/layers/reference.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kClasses = 3;
constexpr SampleShape kShape = {3, 6, 5};

/// Changes all values from their initial ones.
void scramble(Network& network, std::uint64_t seed) {
  Random random(seed);
  for (Weight* weight : network.weights())
    if (weight->spread == 0)
      for (std::size_t i = 0; i < weight->size(); ++i)
        weight->value[i] = static_cast<float>(1 + 0.5 * random.symmetric());
  for (Weight* weight : network.state())
    for (std::size_t i = 0; i < weight->size(); ++i)
      weight->value[i] = static_cast<float>(1 + 0.9 * random.symmetric());
  network.weightsChanged();
}

double unfolded(Network& network, const LayerValues& layers, const MadeUp& samples) {
  Reference reference(layers, kShape);
  for (const Weight* weight : network.weights())
    reference.weights[weight->number].assign(weight->value, weight->value + weight->size());
  for (const Weight* weight : network.state())
    reference.state.emplace_back(weight->value, weight->value + weight->size());
  return reference.loss(
      {samples.labels.size(), kShape, Numbers(samples.inputs.begin(), samples.inputs.end())},
      samples.labels);
}

std::size_t norms(const std::vector<Node>& nodes) {
  std::size_t count = 0;
  for (const Node& node : nodes)
    count += (std::holds_alternative<BatchNorm>(node.value) ? 1 : 0) + norms(node.body) +
             norms(node.shortcut);
  return count;
}

void weightsOf(const std::vector<Node>& nodes, std::vector<const Weight*>& all) {
  for (const Node& node : nodes) {
    all.insert(all.end(), node.weights.begin(), node.weights.end());
    weightsOf(node.body, all);
    weightsOf(node.shortcut, all);
  }
}

/// Evaluates a network that is built only from what was exported.
double exported(Network& network, const MadeUp& samples) {
  std::vector<const Weight*> from;
  weightsOf(network.folded(), from);
  Network copy(valuesOf(network.folded()), kShape);
  const Owner owner(copy);
  REQUIRE(from.size() == copy.weights().size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    REQUIRE(copy.weights()[i]->shape == from[i]->shape);
    std::copy_n(from[i]->value, from[i]->size(), copy.weights()[i]->value);
  }
  copy.weightsChanged();
  return copy.evaluate(samples.batch()).loss;
}

struct Case {
  const char* name;
  LayerValues layers;
  std::size_t left; ///< batch norms that do not follow a convolution
};

std::vector<Case> cases() {
  const Convolution with{16, {.kernel = 3, .padding = 1}}, without{16, {.kernel = 3}, false};
  const Convolution project{16, {.kernel = 1}, false};
  const Linear last{kClasses};
  const Residual residual{{with, BatchNorm{}, Relu{}, with, BatchNorm{}}, {project, BatchNorm{}}};
  return {
      {"with a bias", {with, BatchNorm{}, Flatten{}, last}, 0},
      {"without", {without, BatchNorm{}, Relu{}, Flatten{}, last}, 0},
      {"pool between", {without, AveragePool{{.kernel = 2}}, BatchNorm{}, Flatten{}, last}, 1},
      {"twice", {without, BatchNorm{}, BatchNorm{}, Relu{}, Flatten{}, last}, 1},
      {"inside a residual", {residual, Relu{}, with, BatchNorm{}, Flatten{}, last}, 0},
  };
}

} // namespace

TEST_CASE("evaluation and an exported model compute the same as the layers, without folded norms") {
  for (const Case& tested : cases()) {
    Network network(tested.layers, kShape);
    const Owner owner(network);
    scramble(network, 3);
    const MadeUp samples(kShape, kClasses, 6);
    INFO(tested.name);
    CHECK(norms(network.folded()) == tested.left);
    const double loss = network.evaluate(samples.batch()).loss;
    CHECK(loss == Approx(unfolded(network, tested.layers, samples)).epsilon(1e-5));
    if (tested.left == 0) CHECK(exported(network, samples) == loss);
  }
}

TEST_CASE("the next evaluation uses updated statistics and changed weights") {
  const LayerValues layers = cases()[0].layers;
  Network network(layers, kShape);
  const Owner owner(network);
  const MadeUp samples(kShape, kClasses, 6);
  for (Weight* weight : network.state()) weight->gradient = nullptr;
  double before = network.evaluate(samples.batch()).loss;
  const auto differs = [&] {
    const double loss = network.evaluate(samples.batch()).loss;
    CHECK(loss == Approx(unfolded(network, layers, samples)).epsilon(1e-5));
    CHECK(std::abs(loss - before) > 1e-4);
    before = loss;
  };
  network.forward(samples.batch(), {});
  differs();
  scramble(network, 8);
  differs();
}

} // namespace rondo::test
