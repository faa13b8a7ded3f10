// AdamW: adapts the step length of each element, and decays weights separately (Loshchilov, Hutter,
// Decoupled Weight Decay Regularization, 2019; as torch.optim.AdamW).
//
//   g = scale * gradient;  w -= rate * decay * w
//   m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) g g
//   w -= rate * (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon),  t = 1, 2, ...
#include <cmath>

#include "train/optim/optimizer.h"
#include "train/optim/power.h"

namespace rondo::training::optim {
namespace {

struct Factors {
  float keep; ///< of the weight: 1 - rate * decay
  float scale, beta1, beta2;
  float rate; ///< rate / (1 - beta1^t)
  float root; ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
};

void descend(float* value, float* mean, float* square, const float* gradient, std::size_t count,
             const Factors f) {
  const float fresh1 = 1.0F - f.beta1, fresh2 = 1.0F - f.beta2;
  for (std::size_t i = 0; i < count; ++i) {
    const float g = f.scale * gradient[i];
    const float m = f.beta1 * mean[i] + fresh1 * g;
    const float s = f.beta2 * square[i] + fresh2 * g * g;
    mean[i] = m;
    square[i] = s;
    value[i] = f.keep * value[i] - f.rate * m / (std::sqrt(s) * f.root + f.epsilon);
  }
}

class AdamW : public Optimizer {
 public:
  AdamW(std::span<Weight* const> weights, const OptimizerSettings& settings)
      : Optimizer(weights, settings), mean_(weights), square_(weights) {}

  std::vector<StateArray> state() override {
    std::vector<StateArray> arrays;
    mean_.describe("mean", weights_, arrays);
    square_.describe("square", weights_, arrays);
    return arrays;
  }

 protected:
  void update(double learning_rate, float gradient_scale) override {
    const double bias1 = 1 - power(settings_.beta1, steps());
    const double bias2 = 1 - power(settings_.beta2, steps());
    Factors factors{.keep = 1,
                    .scale = gradient_scale,
                    .beta1 = static_cast<float>(settings_.beta1),
                    .beta2 = static_cast<float>(settings_.beta2),
                    .rate = static_cast<float>(learning_rate / bias1),
                    .root = static_cast<float>(1 / std::sqrt(bias2)),
                    .epsilon = static_cast<float>(settings_.epsilon)};
    const auto decayed = static_cast<float>(1 - learning_rate * settings_.weight_decay);
    for (std::size_t w = 0; w < weights_.size(); ++w) {
      const Weight& weight = *weights_[w];
      factors.keep = weight.decays ? decayed : 1.0F;
      descend(weight.value, mean_[w], square_[w], weight.gradient, weight.size(), factors);
    }
  }

 private:
  WeightArrays mean_, square_;
};

} // namespace

extern const OptimizerKind adamw;
const OptimizerKind adamw{
    .name = "adamw",
    .summary = "steps scaled by each element's gradients, decoupled weight decay",
    .arrays = 2,
    .make = [](std::span<Weight* const> weights, const OptimizerSettings& settings)
        -> std::unique_ptr<Optimizer> { return std::make_unique<AdamW>(weights, settings); },
};

} // namespace rondo::training::optim
