// Tests networks of some of a model's layers: a chain of them equals the whole model.
#include <cstring>
#include <deque>
#include <map>

#include "support/test.h"
#include "train/layers/owner.h"
#include "train/models/model.h"

namespace rondo::test {
namespace {

using namespace training;

struct Model {
  const char* name;
  SampleShape shape;
  std::vector<std::size_t> cuts; ///< cuts before these layers
};
const std::vector<Model> kModels = {{"mlp", {1, 8, 8}, {}},
                                    {"mlp", {1, 8, 8}, {3}},
                                    // The first part is Flatten only.
                                    {"mlp", {1, 8, 8}, {1, 3, 5, 7}},
                                    {"cnn", {1, 12, 12}, {3}},
                                    {"cnn", {1, 12, 12}, {3, 7, 9}},
                                    {"resnet18", {3, 8, 8}, {3, 7, 13}}};
constexpr std::size_t kClasses = 10, kCount = 6;

using Gradients = std::map<std::string, std::vector<float>>;

void keepGradients(Network& network, Gradients& into) {
  for (const Weight* weight : network.weights())
    into[weight->name].assign(weight->gradient, weight->gradient + weight->size());
}

/// The parts of a model, with their memory.
class Chained {
 public:
  explicit Chained(const Model& model) {
    const LayerValues layers = training::model(model.name, model.shape, kClasses);
    std::vector<std::size_t> ends = model.cuts;
    ends.push_back(layers.size());
    std::size_t begin = 0;
    for (std::size_t end : ends) {
      owners_.emplace_back(parts_.emplace_back(layers, model.shape, LayerRange{begin, end}));
      begin = end;
    }
  }

  double forward(Batch batch, const Pass& pass, std::size_t slot) {
    double loss = 0;
    for (Network& part : parts_) {
      loss = part.forward(batch, pass, slot);
      if (&part != &parts_.back()) batch.inputs = part.output(slot);
    }
    return loss;
  }

  void backward(std::size_t slot, Gradients& into) {
    const float* gradient = nullptr;
    for (std::size_t i = parts_.size(); i-- > 0;) {
      Network& part = parts_[i];
      std::size_t ready = 0;
      part.backward(
          gradient, [&](std::size_t weight) { ready += weight + 1; }, slot);
      const std::size_t count = part.weights().size();
      REQUIRE(ready == count * (count + 1) / 2); // each once, by its number in this part
      if (i > 0) gradient = part.inputGradient(slot);
      keepGradients(part, into);
    }
  }

  Score evaluate(Batch batch) {
    for (Network& part : parts_)
      if (&part != &parts_.back()) batch.inputs = part.evaluateOutput(batch);
    return parts_.back().evaluate(batch);
  }

  std::deque<Network>& parts() { return parts_; }

 private:
  std::deque<Network> parts_;
  std::deque<Owner> owners_;
};

} // namespace

TEST_CASE("parts of a model have the names and initial values of the whole model") {
  for (const Model& model : kModels) {
    INFO(model.name << ", " << model.cuts.size() << " cuts");
    Network whole(model.name, model.shape, kClasses);
    const Owner owner(whole);
    Chained chain(model);
    std::vector<Weight*> weights, state;
    for (Network& part : chain.parts()) {
      for (Weight* weight : part.weights()) weights.push_back(weight);
      for (Weight* weight : part.state()) state.push_back(weight);
    }
    for (const auto& [all, expected] :
         {std::pair(weights, whole.weights()), std::pair(state, whole.state())}) {
      REQUIRE(all.size() == expected.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        REQUIRE(all[i]->name == expected[i]->name);
        REQUIRE(all[i]->shape == expected[i]->shape);
        REQUIRE(std::memcmp(all[i]->value, expected[i]->value, all[i]->size() * sizeof(float)) ==
                0);
      }
    }
  }
}

TEST_CASE("a chain of parts has the losses, gradients and scores of the whole, bit for bit") {
  for (const Model& model : kModels) {
    INFO(model.name << ", " << model.cuts.size() << " cuts");
    Network whole(model.name, model.shape, kClasses);
    const Owner owner(whole);
    Chained chain(model);
    const MadeUp made(model.shape, kClasses, kCount);
    const Batch batch = made.batch();
    Gradients expected, gradients;
    const double loss = whole.forward(batch, {});
    whole.backward([](std::size_t) {});
    keepGradients(whole, expected);
    REQUIRE(chain.forward(batch, {}, 0) == loss);
    chain.backward(0, gradients);
    REQUIRE(gradients == expected);
    const Score score = whole.evaluate(batch), same = chain.evaluate(batch);
    REQUIRE(same.loss == score.loss);
    REQUIRE(same.correct == score.correct);
  }
}

TEST_CASE("micro-batches with their own slots do not disturb each other") {
  for (const Model& model : kModels) {
    INFO(model.name << ", " << model.cuts.size() << " cuts");
    Chained chain(model);
    std::deque<MadeUp> made;
    std::vector<double> losses;
    std::vector<Gradients> alone(3), together(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      made.emplace_back(model.shape, kClasses, kCount, 100 * i);
      losses.push_back(chain.forward(made[i].batch(), {}, 0));
      chain.backward(0, alone[i]);
    }
    REQUIRE(losses[0] != losses[1]);
    for (std::size_t i = 0; i < 3; ++i) REQUIRE(chain.forward(made[i].batch(), {}, i) == losses[i]);
    for (std::size_t i : {1U, 2U, 0U}) chain.backward(i, together[i]);
    REQUIRE(together == alone);
  }
}

TEST_CASE("a part names the same layer with values that are not finite as the whole model") {
  Chained chain({"mlp", {1, 8, 8}, {3}});
  const MadeUp made({1, 8, 8}, kClasses, kCount);
  chain.forward(made.batch(), {}, 0);
  REQUIRE(chain.parts()[0].firstNotFinite() == "");
  REQUIRE(chain.parts()[1].firstNotFinite() == "the loss");
  chain.parts()[1].weights()[2]->value[0] = std::numeric_limits<float>::infinity(); // 5.weight
  chain.forward(made.batch(), {}, 0);
  REQUIRE(chain.parts()[1].firstNotFinite() == "layer 5");
}

} // namespace rondo::test
