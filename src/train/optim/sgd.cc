// Stochastic gradient descent with momentum.
//
//   g = scale * gradient + decay * w;  v = momentum * v + g;
//   w -= rate * v, or with Nesterov's momentum w -= rate * (g + momentum * v)
//
// This is torch.optim.SGD without dampening. The rate is not part of v: when the rate changes, the
// momentum so far counts with the new rate.
#include "train/optim/optimizer.h"

namespace rondo::training::optim {
namespace {

struct Factors {
  float rate, scale, momentum, decay;
};

/// The branches are template parameters, so that the loop is vectorised. A weight without decay is
/// computed without the term decay * w, not with a product by zero.
template <bool decays, bool nesterov>
void descend(float* value, float* velocity, const float* gradient, std::size_t count,
             const Factors f) {
  for (std::size_t i = 0; i < count; ++i) {
    float g = f.scale * gradient[i];
    if constexpr (decays) g += f.decay * value[i];
    const float v = f.momentum * velocity[i] + g;
    velocity[i] = v;
    if constexpr (nesterov) value[i] -= f.rate * (g + f.momentum * v);
    else value[i] -= f.rate * v;
  }
}

class Sgd : public Optimizer {
 public:
  Sgd(std::span<Weight* const> weights, const OptimizerSettings& settings)
      : Optimizer(weights, settings), velocity_(weights) {}

  std::vector<StateArray> state() override {
    std::vector<StateArray> arrays;
    velocity_.describe("velocity", weights_, arrays);
    return arrays;
  }

 protected:
  void update(double learning_rate, float gradient_scale) override {
    const Factors factors{static_cast<float>(learning_rate), gradient_scale,
                          static_cast<float>(settings_.momentum),
                          static_cast<float>(settings_.weight_decay)};
    for (std::size_t w = 0; w < weights_.size(); ++w) {
      const Weight& weight = *weights_[w];
      const bool decays = weight.decays && settings_.weight_decay > 0;
      const auto loop = decays
                            ? (settings_.nesterov ? descend<true, true> : descend<true, false>)
                            : (settings_.nesterov ? descend<false, true> : descend<false, false>);
      loop(weight.value, velocity_[w], weight.gradient, weight.size(), factors);
    }
  }

 private:
  WeightArrays velocity_;
};

} // namespace

extern const OptimizerKind sgd;
const OptimizerKind sgd{
    .name = "sgd",
    .summary = "gradient descent with momentum, optionally Nesterov's",
    .arrays = 1,
    .make = [](std::span<Weight* const> weights, const OptimizerSettings& settings)
        -> std::unique_ptr<Optimizer> { return std::make_unique<Sgd>(weights, settings); },
};

} // namespace rondo::training::optim
