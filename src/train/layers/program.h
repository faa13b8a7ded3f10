// The interface between models and backends: a network that a backend has prepared for batches of
// one size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "train/data/batch.h"
#include "train/layers/precision.h"
#include "train/layers/weight.h"

namespace rondo::training {

/// The parameters of a training pass, in addition to its batch.
struct Pass {
  std::uint64_t seed = 0; ///< seed of the step, for dropout
  /// Sums the floats over all ranks: batch norm then uses the statistics of all ranks' batches. All
  /// ranks make the same calls in the same order. Empty: each rank uses its own batch.
  std::function<void(float*, std::size_t)> sum_over_ranks;
};

struct Score {
  double loss = 0; ///< sum over the samples
  std::size_t correct = 0;
};

/// Called with the number of a weight when its gradient is complete.
using GradientReady = std::function<void(std::size_t weight)>;

/// Called with the number of a layer before that layer runs, in forward and backward passes.
using Before = std::function<void(std::size_t layer)>;

/// The arguments of a program.
struct Binding {
  SampleShape input;
  std::size_t count; ///< samples in a batch
  bool training;
  const std::uint64_t* version; ///< changes whenever the values of the weights change
  /// The loss follows the last layer; otherwise the program ends with the last layer's output.
  bool ends = true;
  /// The input is samples, whose gradient is not needed; otherwise it is another rank's
  /// activations.
  bool begins = true;
  const Before* before = nullptr; ///< null: no call
  /// If false, the weights of a layer are valid only from its `before` call to that of the next
  /// layer, and no copies of them are kept, in any layout.
  bool weights_stay = true;
  Precision precision = Precision::float32;
};

/// A program is made either for training (forward, backward) or for evaluation. One thread at a
/// time. It reads the weights through the nodes' pointers. It allocates nothing after the first
/// pass.
class Program {
 public:
  virtual ~Program() = default;

  /// Returns the sum of the samples' losses; 0 if the program does not end with the loss.
  virtual double forward(const Batch& batch, const Pass& pass) = 0;
  /// Writes the gradients of that sum for the last forward pass, those of the last layers first. If
  /// the program does not end with the loss, `gradient` is the gradient of output(); otherwise it
  /// is unused.
  virtual void backward(const float* gradient, const GradientReady& ready) = 0;
  virtual Score evaluate(const Batch& batch) = 0;
  /// The output of the last pass, [count x channels x height x width], valid until the next pass.
  /// Only if the program does not end with the loss.
  virtual const float* output() const = 0;
  /// The gradient of the input from the last backward pass, in the layout of the batch's inputs,
  /// valid until the next pass. Only if the program does not begin with samples.
  virtual const float* inputGradient() const = 0;
  /// The index of the first layer whose output in the last forward pass is not finite; the number
  /// of layers if there is none.
  virtual std::size_t firstNotFinite() const = 0;
};

} // namespace rondo::training
