// A network made ready for batches of one size by a backend: the seam between models and the
// libraries that compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "train/data/batch.h"
#include "train/layers/precision.h"
#include "train/layers/weight.h"

namespace rondo::training {

/// What a training pass knows beside its batch.
struct Pass {
  std::uint64_t seed = 0; ///< of the step: dropout
  /// Sums the floats over all ranks: batch norm then normalises by the statistics of all ranks'
  /// batches. Every rank calls it equally often and in the same order. Empty: each for itself.
  std::function<void(float*, std::size_t)> sum_over_ranks;
};

struct Score {
  double loss = 0; ///< sum over the samples
  std::size_t correct = 0;
};

/// Called with a weight's number when its gradient is complete.
using GradientReady = std::function<void(std::size_t weight)>;

/// Called with a layer's number before that layer runs, on the way forward and back.
using Before = std::function<void(std::size_t layer)>;

/// What a program is made for.
struct Binding {
  SampleShape input;
  std::size_t count; ///< samples of a batch
  bool training;
  const std::uint64_t* version; ///< of the weights' values; changes when they do
  bool ends = true;             ///< with the loss behind the last layer; else with what that makes
  bool begins = true; ///< with samples, whose gradient nobody wants; else with what layers made
  const Before* before = nullptr; ///< null: nobody asks
  /// False: a layer's weights are there only from its `before` to the next layer's, so nothing of
  /// them is kept, copies in other layouts neither.
  bool weights_stay = true;
  Precision precision = Precision::float32;
};

/// Made either for training (forward, backward) or for evaluation. One thread at a time. The
/// weights are read where the nodes point; nothing is allocated after the first pass.
class Program {
 public:
  virtual ~Program() = default;

  /// The sum of the samples' losses; 0 where it does not end with the loss.
  virtual double forward(const Batch& batch, const Pass& pass) = 0;
  /// Of the last pass forward: writes the gradients of that sum, the last layers' first. Where it
  /// does not end with the loss, `gradient` is that of output(), else it is not used.
  virtual void backward(const float* gradient, const GradientReady& ready) = 0;
  virtual Score evaluate(const Batch& batch) = 0;
  /// [count x channels x height x width] of the last pass, until the next one; where it does not
  /// end with the loss.
  virtual const float* output() const = 0;
  /// Of the last pass back, until the next pass, as the batch's inputs; where it does not begin
  /// with samples.
  virtual const float* inputGradient() const = 0;
  /// The number of the first layer whose output, of the last pass forward, is not finite; the
  /// number of layers if there is none.
  virtual std::size_t firstNotFinite() const = 0;
};

} // namespace rondo::training
