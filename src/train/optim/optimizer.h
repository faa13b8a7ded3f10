// What turns gradients into new weights.
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
  bool nesterov = false;              ///< sgd: look one step of momentum ahead
  double weight_decay = 0;            ///< of the weights that decay: 0 or more
  double beta1 = 0.9;                 ///< adamw: share of the old mean, in [0, 1)
  double beta2 = 0.999;               ///< adamw: share of the old mean of squares, in [0, 1)
  double epsilon = 1e-8;              ///< adamw: what keeps its divisor from zero
  double trust = 0.001;               ///< lars: of a step to the weights' own length
  SumOverShards sum_over_shards = {}; ///< lars: lengths are of whole weights
};

/// An array that an optimizer keeps for a weight, as a checkpoint saves and restores it.
struct StateArray {
  std::string name;               ///< "velocity.3.weight"
  std::vector<std::size_t> shape; ///< as the weight's
  std::span<float> values;
};

/// Holds the network's weights from its making on; they must stay where they are, their gradients
/// may move. Only additions, products, quotients and square roots, which every machine rounds
/// alike: equal gradients on all ranks leave equal weights on all ranks. One thread at a time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One step along all gradients, each multiplied by gradient_scale first (1 / samples, and what
  /// clipping asks for). Gradients stay as they are. Allocates nothing.
  void step(double learning_rate, float gradient_scale) {
    ++steps_;
    update(learning_rate, gradient_scale);
  }

  /// What a checkpoint needs, beside the weights, to go on as if nothing had happened: these
  /// arrays, and how many steps there were.
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

/// One array of zeros beside each weight.
class WeightArrays {
 public:
  explicit WeightArrays(std::span<Weight* const> weights);

  float* operator[](std::size_t weight) { return arrays_[weight].data(); }
  /// Adds all arrays, named "NAME.WEIGHT".
  void describe(const std::string& name, std::span<Weight* const> weights,
                std::vector<StateArray>& into);

 private:
  std::vector<AlignedVector<float>> arrays_;
};

/// A line of optimizers.def.
struct OptimizerKind {
  std::string_view name, summary;
  std::size_t arrays; ///< that it keeps beside each weight
  std::unique_ptr<Optimizer> (*make)(std::span<Weight* const>, const OptimizerSettings&);
};

std::span<const OptimizerKind* const> optimizers();

/// Throws Error(invalid_argument) for a name that is not there, with those that are.
const OptimizerKind& optimizerKind(std::string_view name);

/// Errors as of optimizerKind(), and for a setting out of its range.
std::unique_ptr<Optimizer> makeOptimizer(std::string_view name, std::span<Weight* const> weights,
                                         const OptimizerSettings& settings);

} // namespace rondo::training
