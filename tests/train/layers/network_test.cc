// Tests whole networks: names, when gradients are ready, and that bits do not depend on where or
// how often something is computed.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "rondo/error.h"
#include "support/test.h"
#include "train/layers/owner.h"
#include "train/models/model.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr SampleShape kGrey = {1, 28, 28}, kColour = {3, 32, 32};

std::vector<std::string> names(const std::vector<Weight*>& weights) {
  std::vector<std::string> result;
  for (const Weight* weight : weights) result.push_back(weight->name);
  return result;
}

struct Outcome {
  double loss;
  std::vector<float> gradients;
  bool operator==(const Outcome&) const = default;
};

Outcome pass(Network& network, const Batch& batch) {
  Outcome outcome{.loss = network.forward(batch, {}), .gradients = {}};
  network.backward([](std::size_t) {});
  for (const Weight* weight : network.weights())
    outcome.gradients.insert(outcome.gradients.end(), weight->gradient,
                             weight->gradient + weight->size());
  return outcome;
}

} // namespace

TEST_CASE("an unknown model is refused with a list of the valid ones") {
  try {
    Network("lenet", kGrey, 10);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()).starts_with("train: unknown model \"lenet\"; valid: mlp"));
  }
}

TEST_CASE("layers that do not fit are refused with their number") {
  try {
    Network({Relu{}, Linear{3}}, {2, 5, 5});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()).find("layer 1: ") == 0);
  }
}

TEST_CASE("weights are named by layer, shaped as they are stored, and numbered in order") {
  Network network("mlp", kGrey, 10);
  const auto weights = network.weights();
  CHECK(names(weights) == std::vector<std::string>{"1.weight", "1.bias", "3.weight", "3.bias",
                                                   "5.weight", "5.bias", "7.weight", "7.bias"});
  CHECK(weights[0]->shape == std::vector<std::size_t>{256, 784});
  CHECK(weights[7]->shape == std::vector<std::size_t>{10});
  for (std::size_t i = 0; i < weights.size(); ++i) CHECK(weights[i]->number == i);
  CHECK(weights[0]->decays);
  CHECK(!weights[1]->decays);
}

TEST_CASE("models have as many weights as models of the same name elsewhere") {
  const auto count = [](const char* model, const SampleShape& in, std::size_t classes) {
    Network network(model, in, classes);
    std::size_t all = 0;
    for (const Weight* weight : network.weights()) all += weight->size();
    return all;
  };
  CHECK(count("mlp", kGrey, 10) == 242762);
  CHECK(count("cnn", kGrey, 10) == 421642);
  CHECK(count("resnet18", kColour, 10) == 11173962);
  CHECK(count("resnet50", {3, 224, 224}, 1000) == 25557032);
}

TEST_CASE("weights inside a residual are named by their path") {
  Network network("resnet18", kColour, 10);
  CHECK(network.weights()[3]->name == "3.body.0.weight");
  CHECK(network.weights()[3]->shape == std::vector<std::size_t>{64, 64, 3, 3});
  const auto all = names(network.weights());
  CHECK(std::find(all.begin(), all.end(), "7.shortcut.0.weight") != all.end());
  CHECK(names(network.state())[0] == "1.running_mean");
}

TEST_CASE("a residual whose branches have different output shapes is refused") {
  try {
    Network({Residual{{Convolution{4, {.kernel = 1}}}, {}}, Linear{3}}, {2, 5, 5});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "layer 0: the residual's body outputs 4 x 5 x 5, but its shortcut 2 x 5 x 5");
  }
}

TEST_CASE("windows that do not fit are refused") {
  for (const Window window : {Window{.kernel = 6},
                              {.kernel = 0},
                              {.kernel = 2, .stride = 0},
                              {.kernel = 2, .padding = 2}})
    CHECK_THROWS_AS(Network({MaxPool{window}, Flatten{}, Linear{3}}, {2, 5, 5}), Error);
}

TEST_CASE("initial values depend on the seed only") {
  Network one("mlp", kGrey, 10), same("mlp", kGrey, 10), other("mlp", kGrey, 10);
  const Owner a(one, 4), b(same, 4), c(other, 5);
  const Weight &x = *one.weights()[0], &y = *same.weights()[0], &z = *other.weights()[0];
  CHECK(std::memcmp(x.value, y.value, x.size() * sizeof(float)) == 0);
  CHECK(std::memcmp(x.value, z.value, x.size() * sizeof(float)) != 0);
  CHECK(*std::max_element(x.value, x.value + x.size()) <= 0.0875F); // sqrt(6 / 784)
}

TEST_CASE("each gradient is reported as ready once, when complete, the last layer's first") {
  Network network("mlp", kGrey, 10);
  const Owner owner(network);
  const MadeUp samples(kGrey, 10, 4);
  const auto weights = network.weights();
  const Outcome whole = pass(network, samples.batch());
  for (Weight* weight : weights) std::fill_n(weight->gradient, weight->size(), 9.0F);
  network.forward(samples.batch(), {});
  std::vector<std::size_t> order;
  std::vector<std::vector<float>> seen(weights.size());
  network.backward([&](std::size_t i) {
    order.push_back(i);
    seen[i].assign(weights[i]->gradient, weights[i]->gradient + weights[i]->size());
  });
  CHECK(order == std::vector<std::size_t>{6, 7, 4, 5, 2, 3, 0, 1});
  std::vector<float> all;
  for (const auto& gradient : seen) all.insert(all.end(), gradient.begin(), gradient.end());
  CHECK(all == whole.gradients);
}

TEST_CASE("each gradient of a residual is reported as ready once, as it completes") {
  Network network("resnet18", kColour, 10);
  const Owner owner(network);
  const MadeUp samples(kColour, 10, 1);
  network.forward(samples.batch(), {});
  std::vector<std::size_t> order;
  network.backward([&](std::size_t i) { order.push_back(i); });
  CHECK(order.front() >= network.weights().size() - 2);
  CHECK(order.back() == 0);
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> all(network.weights().size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  CHECK(order == all);
}

TEST_CASE("the same batch gives the same bits, in any network and after any other batch") {
  for (const char* model : {"mlp", "cnn", "resnet18"})
    for (std::size_t count : {1, 3}) {
      const SampleShape shape = std::string(model) == "resnet18" ? kColour : kGrey;
      Network one(model, shape, 10), other(model, shape, 10);
      const Owner a(one, 4), b(other, 4);
      const MadeUp samples(shape, 10, count), before(shape, 10, 2, 100);
      const Outcome first = pass(one, samples.batch());
      CHECK(pass(one, samples.batch()) == first);
      pass(other, before.batch());
      CHECK(pass(other, samples.batch()) == first);
    }
}

TEST_CASE("a pass writes gradients to the memory that the weights point to at that time") {
  Network network("mlp", kGrey, 10);
  const Owner owner(network);
  const MadeUp samples(kGrey, 10, 4);
  const Outcome first = pass(network, samples.batch());
  std::vector<Floats> elsewhere;
  for (Weight* weight : network.weights())
    weight->gradient = elsewhere.emplace_back(weight->size()).data();
  CHECK(pass(network, samples.batch()) == first);
}

TEST_CASE("the next pass uses changed values, in training and in evaluation") {
  Network network("mlp", kGrey, 10);
  const Owner owner(network);
  const MadeUp samples(kGrey, 10, 4);
  const double before = network.forward(samples.batch(), {});
  CHECK(network.evaluate(samples.batch()).loss == Approx(before).epsilon(1e-6));
  for (Weight* weight : network.weights())
    for (std::size_t i = 0; i < weight->size(); ++i) weight->value[i] *= 0.5F;
  network.weightsChanged();
  const double after = network.forward(samples.batch(), {});
  CHECK(after != before);
  CHECK(network.evaluate(samples.batch()).loss == Approx(after).epsilon(1e-6));
}

TEST_CASE("an evaluation counts the samples whose class has the highest value") {
  Network network({Linear{3}}, {3, 1, 1});
  const Owner owner(network);
  Weight& weight = *network.weights()[0];
  for (std::size_t i = 0; i < 9; ++i) weight.value[i] = i % 4 == 0 ? 1.0F : 0.0F;
  network.weightsChanged();
  MadeUp samples({3, 1, 1}, 3, 4);
  for (std::size_t n = 0; n < 4; ++n) // each sample has class n % 3; the last one is labelled 1
    for (std::size_t c = 0; c < 3; ++c) samples.inputs[n * 3 + c] = c == n % 3 ? 2.0F : 0.0F;
  samples.labels = {0, 1, 2, 1};
  CHECK(network.evaluate(samples.batch()).correct == 3);
}

} // namespace rondo::test
