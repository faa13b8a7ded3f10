// Compares optimizers with their formulas, computed element by element in double.
#include "train/optim/optimizer.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "rondo/error.h"
#include "support/test.h"
#include "weights.h"

namespace rondo::test {
namespace {

using training::OptimizerSettings;
using training::Weight;

/// The state of one element in the formula.
struct Element {
  double value = 0, first = 0, second = 0;
};
struct Step {
  double rate, scale;
  int number;           ///< counted from 1
  double length, slope; ///< norms of the weight and of its scaled gradient (lars)
};
using Formula = std::function<void(Element&, double gradient, bool decays, const Step&)>;

double length(const float* values, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return std::sqrt(sum);
}

/// Compares 25 steps of an optimizer with the formula; each step has another rate and scale.
void follow(const std::string& name, const OptimizerSettings& settings, const Formula& formula) {
  Weights weights;
  const auto optimizer = training::makeOptimizer(name, weights.all(), settings);
  std::vector<std::vector<Element>> expected;
  for (const Weight* weight : weights.all()) {
    auto& elements = expected.emplace_back(weight->size());
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i].value = weight->value[i];
  }
  for (int number = 1; number <= 25; ++number) {
    weights.drawGradients();
    const auto scale = static_cast<float>(1.0 / (1 + number % 4));
    const double rate = 0.05 / (1 + number % 3);
    for (std::size_t w = 0; w < expected.size(); ++w) {
      const Weight& weight = *weights.all()[w];
      double weight_length = 0;
      for (const Element& element : expected[w]) weight_length += element.value * element.value;
      const Step step{rate, scale, number, std::sqrt(weight_length),
                      static_cast<double>(scale) * length(weight.gradient, weight.size())};
      for (std::size_t i = 0; i < expected[w].size(); ++i)
        formula(expected[w][i], scale * static_cast<double>(weight.gradient[i]), weight.decays,
                step);
    }
    optimizer->step(rate, scale);
  }
  REQUIRE(optimizer->steps() == 25);
  for (std::size_t w = 0; w < expected.size(); ++w)
    for (std::size_t i = 0; i < expected[w].size(); ++i) {
      INFO(name << ", element " << i << " of weight " << w);
      REQUIRE(close(weights.all()[w]->value[i], expected[w][i].value, 2e-5));
    }
}

} // namespace

TEST_CASE("sgd follows PyTorch's formula, with decay and with Nesterov's momentum") {
  for (const bool nesterov : {false, true})
    for (const double decay : {0.0, 0.01})
      for (const double momentum : {0.0, 0.9}) {
        INFO("nesterov " << nesterov << ", decay " << decay << ", momentum " << momentum);
        follow("sgd", {.momentum = momentum, .nesterov = nesterov, .weight_decay = decay},
               [&](Element& e, double g, bool decays, const Step& step) {
                 if (decays) g += decay * e.value;
                 e.first = momentum * e.first + g;
                 e.value -= step.rate * (nesterov ? g + momentum * e.first : e.first);
               });
      }
}

TEST_CASE("adamw follows PyTorch's formula") {
  for (const double decay : {0.0, 0.1})
    follow("adamw", {.weight_decay = decay},
           [&](Element& e, double g, bool decays, const Step& step) {
             if (decays) e.value -= step.rate * decay * e.value;
             e.first = 0.9 * e.first + 0.1 * g;
             e.second = 0.999 * e.second + 0.001 * g * g;
             const double mean = e.first / (1 - std::pow(0.9, step.number));
             const double square = e.second / (1 - std::pow(0.999, step.number));
             e.value -= step.rate * mean / (std::sqrt(square) + 1e-8);
           });
}

TEST_CASE("lars follows the paper's formula, and treats biases as plain momentum does") {
  follow("lars", {.weight_decay = 0.01, .trust = 0.02},
         [&](Element& e, double g, bool decays, const Step& step) {
           double local = 1;
           if (decays) {
             local = 0.02 * step.length / (step.slope + 0.01 * step.length);
             g += 0.01 * e.value;
           }
           e.first = 0.9 * e.first + step.rate * local * g;
           e.value -= e.first;
         });
}

TEST_CASE("lars takes a plain step from weights that are zero") {
  Weights weights({4});
  Weight& weight = *weights.all()[0];
  weights.drawGradients();
  std::fill_n(weight.value, 4, 0.0F);
  training::makeOptimizer("lars", weights.all(), {})->step(0.5, 1);
  for (std::size_t i = 0; i < 4; ++i) REQUIRE(weight.value[i] == -(0.5F * weight.gradient[i]));
}

TEST_CASE("sgd without decay is momentum * v + scale * g to the last bit") {
  Weights weights({1000, 3}), other({1000, 3});
  const auto optimizer = training::makeOptimizer("sgd", weights.all(), {.momentum = 0.9});
  const float momentum = 0.9F, rate = 0.02F, scale = 1.0F / 128;
  std::vector<std::vector<float>> velocity = {std::vector<float>(1000), std::vector<float>(3)};
  for (int step = 0; step < 20; ++step) {
    weights.drawGradients();
    other.drawGradients();
    optimizer->step(0.02, scale);
    for (std::size_t w = 0; w < 2; ++w) {
      const Weight& mine = *other.all()[w];
      for (std::size_t i = 0; i < mine.size(); ++i) {
        velocity[w][i] = momentum * velocity[w][i] + scale * mine.gradient[i];
        mine.value[i] -= rate * velocity[w][i];
      }
      REQUIRE(std::memcmp(mine.value, weights.all()[w]->value, mine.size() * 4) == 0);
    }
  }
}

TEST_CASE("with another one's state and number of steps an optimizer continues like it") {
  for (const training::OptimizerKind* kind : training::optimizers()) {
    INFO(kind->name);
    const OptimizerSettings settings{.weight_decay = 0.01};
    Weights undisturbed, resumed;
    const auto first = training::makeOptimizer(kind->name, undisturbed.all(), settings);
    const auto step = [](Weights& weights, training::Optimizer& optimizer) {
      weights.drawGradients();
      optimizer.step(0.01, 0.5F);
    };
    for (int i = 0; i < 5; ++i) step(undisturbed, *first);
    // The other set of weights gets here by the contents of a checkpoint; only its gradients are
    // drawn.
    for (int i = 0; i < 5; ++i) resumed.drawGradients();
    for (std::size_t w = 0; w < resumed.all().size(); ++w)
      std::copy_n(undisturbed.all()[w]->value, resumed.all()[w]->size(), resumed.all()[w]->value);
    const auto second = training::makeOptimizer(kind->name, resumed.all(), settings);
    auto from = first->state(), to = second->state();
    REQUIRE(from.size() == to.size());
    REQUIRE(!from.empty());
    for (std::size_t i = 0; i < from.size(); ++i) {
      REQUIRE(from[i].name == to[i].name);
      REQUIRE(from[i].shape == to[i].shape);
      std::copy(from[i].values.begin(), from[i].values.end(), to[i].values.begin());
    }
    second->setSteps(first->steps());
    for (int i = 0; i < 5; ++i) {
      step(undisturbed, *first);
      step(resumed, *second);
    }
    for (std::size_t w = 0; w < resumed.all().size(); ++w)
      REQUIRE(std::memcmp(undisturbed.all()[w]->value, resumed.all()[w]->value,
                          resumed.all()[w]->size() * 4) == 0);
  }
}

TEST_CASE("an unknown optimizer and settings out of range are refused with the valid values") {
  Weights weights({2});
  const auto refused = [&](const std::string& name, const OptimizerSettings& settings,
                           const std::string& text) {
    INFO(text);
    try {
      training::makeOptimizer(name, weights.all(), settings);
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      INFO(error.what());
      REQUIRE(error.code() == ErrorCode::invalid_argument);
      REQUIRE(std::string(error.what()).find(text) != std::string::npos);
    }
  };
  refused("adam", {}, "unknown optimizer \"adam\"; valid: sgd, adamw, lars");
  refused("sgd", {.momentum = 1.5}, "momentum is 1.5");
  refused("sgd", {.momentum = std::nan("")}, "momentum is nan");
  refused("sgd", {.weight_decay = -1}, "weight_decay is -1");
  refused("adamw", {.beta1 = 1}, "beta1 is 1");
  refused("adamw", {.beta2 = -0.5}, "beta2 is -0.5");
  refused("adamw", {.epsilon = 0}, "epsilon is 0");
  refused("lars", {.trust = 0}, "trust is 0");
}

} // namespace rondo::test
