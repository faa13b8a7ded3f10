// Interface of optimizers, which compute new weights from gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/aligned.h"
#include "train/layers/weight.h"
#include "train/optim/norm.h"

namespace rondo::training {

struct OptimizerSettings {
  double momentum = 0.9;              ///< sgd, lars: in [0, 1]
  bool nesterov = false;              ///< sgd: Nesterov's momentum
  double weight_decay = 0;            ///< of the weights that decay; 0 or more
  double beta1 = 0.9;                 ///< adamw: weight of the old mean, in [0, 1)
  double beta2 = 0.999;               ///< adamw: weight of the old mean of squares, in [0, 1)
  double epsilon = 1e-8;              ///< adamw: keeps the divisor above zero
  double trust = 0.001;               ///< lars: length of a step relative to the norm of the weight
  SumOverShards sum_over_shards = {}; ///< lars: computes norms of weights in parts
};

/// An array that an optimizer keeps for a weight. Checkpoints save and restore it.
struct StateArray {
  std::string name;               ///< for example "velocity.3.weight"
  std::vector<std::size_t> shape; ///< as the weight's
  std::span<float> values;
};

/// Updates a network's weights, which must not move in memory during its lifetime; their gradients
/// may. It uses only additions, products, quotients and square roots, which every machine rounds
/// the same: if all ranks have equal gradients, they get equal weights. Not thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Makes one step. Each gradient is multiplied by gradient_scale (1 / samples, and the factor of
  /// clipping), but not changed in memory. Allocates nothing.
  void step(double learning_rate, float gradient_scale) {
    ++steps_;
    update(learning_rate, gradient_scale);
  }

  /// The state that a checkpoint must save in addition to the weights: these arrays, and the number
  /// of steps.
  virtual std::vector<StateArray> state() = 0;
  std::uint64_t steps() const { return steps_; }
  void setSteps(std::uint64_t steps) { steps_ = steps; }

 protected:
  Optimizer(std::span<Weight* const> weights, const OptimizerSettings& settings)
      : weights_(weights.begin(), weights.end()), settings_(settings) {}

  virtual void update(double learning_rate, float gradient_scale) = 0;

  const std::vector<Weight*> weights_;
  const OptimizerSettings settings_;

 private:
  std::uint64_t steps_ = 0;
};

/// One array for each weight, initially zero.
class WeightArrays {
 public:
  explicit WeightArrays(std::span<Weight* const> weights);

  float* operator[](std::size_t weight) { return arrays_[weight].data(); }
  /// Appends all arrays, named "NAME.WEIGHT".
  void describe(const std::string& name, std::span<Weight* const> weights,
                std::vector<StateArray>& into);

 private:
  std::vector<AlignedVector<float>> arrays_;
};

/// An optimizer: one line of optimizers.def.
struct OptimizerKind {
  std::string_view name, summary;
  std::size_t arrays; ///< number of arrays that it keeps for each weight
  std::unique_ptr<Optimizer> (*make)(std::span<Weight* const>, const OptimizerSettings&);
};

std::span<const OptimizerKind* const> optimizers();

/// Throws Error(invalid_argument), which lists all optimizers, for an unknown name.
const OptimizerKind& optimizerKind(std::string_view name);

/// Throws what optimizerKind() throws, and Error(invalid_argument) for a setting out of range.
std::unique_ptr<Optimizer> makeOptimizer(std::string_view name, std::span<Weight* const> weights,
                                         const OptimizerSettings& settings);

} // namespace rondo::training
