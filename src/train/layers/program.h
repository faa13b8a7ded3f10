// A network made ready for batches of one size by a backend: the seam between models and the
// libraries that compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "train/data/batch.h"
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
using Ready = std::function<void(std::size_t weight)>;

/// What a program is made for.
struct Binding {
  SampleShape input;
  std::size_t count; ///< samples of a batch
  bool training;
  const std::uint64_t* version; ///< of the weights' values; changes when they do
};

/// Made either for training (forward, backward) or for evaluation. One thread at a time. The
/// weights are read where the nodes point; nothing is allocated after the first pass.
class Program {
 public:
  virtual ~Program() = default;

  /// The sum of the samples' losses.
  virtual double forward(const Batch& batch, const Pass& pass) = 0;
  /// Of the last pass forward: writes the gradients of that sum, the last layers' first.
  virtual void backward(const Ready& ready) = 0;
  virtual Score evaluate(const Batch& batch) = 0;
  /// The number of the first layer whose output, of the last pass forward, is not finite; the
  /// number of layers if there is none.
  virtual std::size_t firstNotFinite() const = 0;
};

} // namespace rondo::training
