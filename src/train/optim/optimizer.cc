// The registry of optimizers, and the check of their settings.
#include "train/optim/optimizer.h"

#include <array>
#include <cmath>

#include "rondo/error.h"
#include "train/named.h"

namespace rondo::training {

namespace optim {
#define OPTIMIZER(x) extern const OptimizerKind x;
#include "train/optim/optimizers.def"
#undef OPTIMIZER
} // namespace optim

namespace {

constexpr auto kOptimizers = std::to_array<const OptimizerKind*>({
#define OPTIMIZER(x) &optim::x,
#include "train/optim/optimizers.def"
#undef OPTIMIZER
});

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: " + what);
}

void check(const OptimizerSettings& settings) {
  const auto require = [](bool holds, const char* name, double value, const char* range) {
    if (!holds) refuse(std::string(name) + " is " + std::to_string(value) + ", must be " + range);
  };
  const auto fraction = [](double value) { return value >= 0 && value < 1; };
  require(settings.momentum >= 0 && settings.momentum <= 1, "momentum", settings.momentum,
          "in 0 to 1");
  require(settings.weight_decay >= 0 && std::isfinite(settings.weight_decay), "weight_decay",
          settings.weight_decay, "0 or more");
  require(fraction(settings.beta1), "beta1", settings.beta1, "0 or more and below 1");
  require(fraction(settings.beta2), "beta2", settings.beta2, "0 or more and below 1");
  require(settings.epsilon > 0 && std::isfinite(settings.epsilon), "epsilon", settings.epsilon,
          "above 0");
  require(settings.trust > 0 && std::isfinite(settings.trust), "trust", settings.trust, "above 0");
}

} // namespace

WeightArrays::WeightArrays(std::span<Weight* const> weights) {
  arrays_.reserve(weights.size());
  for (const Weight* weight : weights) arrays_.emplace_back(weight->size());
}

void WeightArrays::describe(const std::string& name, std::span<Weight* const> weights,
                            std::vector<StateArray>& into) {
  for (std::size_t w = 0; w < weights.size(); ++w)
    into.push_back({name + "." + weights[w]->name, weights[w]->shape, arrays_[w]});
}

std::span<const OptimizerKind* const> optimizers() { return kOptimizers; }

const OptimizerKind& optimizerKind(std::string_view name) {
  return named(kOptimizers, "optimizer", name);
}

std::unique_ptr<Optimizer> makeOptimizer(std::string_view name, std::span<Weight* const> weights,
                                         const OptimizerSettings& settings) {
  check(settings);
  return optimizerKind(name).make(weights, settings);
}

} // namespace rondo::training
