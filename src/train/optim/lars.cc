// LARS: momentum, with steps in proportion to the norm of each weight (You, Gitman, Ginsburg, Large
// Batch Training of Convolutional Networks, 2017).
//
//   g = scale * gradient;  local = trust * |w| / (|g| + decay * |w|)
//   v = momentum * v + rate * local * (g + decay * w);  w -= v
//
// Weights that do not decay, and weights with |w| = 0 or |g| = 0, have local = 1. Unlike in sgd,
// the rate is part of v, as in the paper.
#include <cmath>

#include "train/optim/norm.h"
#include "train/optim/optimizer.h"

namespace rondo::training::optim {
namespace {

struct Factors {
  float rate, scale, momentum, decay;
};

void descend(float* value, float* velocity, const float* gradient, std::size_t count,
             const Factors f) {
  for (std::size_t i = 0; i < count; ++i) {
    const float g = f.scale * gradient[i] + f.decay * value[i];
    const float v = f.momentum * velocity[i] + f.rate * g;
    velocity[i] = v;
    value[i] -= v;
  }
}

class Lars : public Optimizer {
 public:
  Lars(std::span<Weight* const> weights, const OptimizerSettings& settings)
      : Optimizer(weights, settings), velocity_(weights), squares_(2 * weights.size()) {}

  std::vector<StateArray> state() override {
    std::vector<StateArray> arrays;
    velocity_.describe("velocity", weights_, arrays);
    return arrays;
  }

 protected:
  void update(double learning_rate, float gradient_scale) override {
    measure();
    for (std::size_t w = 0; w < weights_.size(); ++w) {
      const Weight& weight = *weights_[w];
      const double decay = weight.decays ? settings_.weight_decay : 0;
      const double local = weight.decays ? localRate(w, gradient_scale, decay) : 1;
      const Factors factors{static_cast<float>(learning_rate * local), gradient_scale,
                            static_cast<float>(settings_.momentum), static_cast<float>(decay)};
      descend(weight.value, velocity_[w], weight.gradient, weight.size(), factors);
    }
  }

 private:
  /// Computes the squared norms of all weights and gradients, also if their parts are on several
  /// ranks.
  void measure() {
    for (std::size_t w = 0; w < weights_.size(); ++w) {
      const Weight& weight = *weights_[w];
      if (!weight.decays) continue;
      squares_[2 * w] = squaredNorm(weight.value, weight.size());
      squares_[2 * w + 1] = squaredNorm(weight.gradient, weight.size());
    }
    if (settings_.sum_over_shards) settings_.sum_over_shards(squares_);
  }

  double localRate(std::size_t weight, float scale, double decay) const {
    const double length = std::sqrt(squares_[2 * weight]);
    const double slope = static_cast<double>(scale) * std::sqrt(squares_[2 * weight + 1]);
    if (length == 0 || slope == 0) return 1;
    return settings_.trust * length / (slope + decay * length);
  }

  WeightArrays velocity_;
  /// Squared norms of each weight and its gradient, in turn.
  std::vector<double> squares_;
};

} // namespace

extern const OptimizerKind lars;
const OptimizerKind lars{
    .name = "lars",
    .summary = "momentum with steps in proportion to each weight's norm, for large batches",
    .arrays = 1,
    .make = [](std::span<Weight* const> weights, const OptimizerSettings& settings)
        -> std::unique_ptr<Optimizer> { return std::make_unique<Lars>(weights, settings); },
};

} // namespace rondo::training::optim
