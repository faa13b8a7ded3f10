// Interface to the layers of a model that one stage of a pipeline runs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "train/loop/stopwatch.h"
#include "train/models/network.h"

namespace rondo::training {

/// Each function means the same as in Network, which runs on one rank. A PartModel may be spread
/// over several ranks with the same batches: then all of them must make the same calls in the same
/// order. One thread.
class PartModel {
 public:
  virtual ~PartModel() = default;

  /// Shapes of one sample at the input and at the output: the elements that this rank holds.
  virtual const SampleShape& inputShape() const = 0;
  virtual const SampleShape& outputShape() const = 0;

  /// The weights of the part that this rank learns, with their values. The caller provides memory
  /// for the gradients.
  virtual std::span<Weight* const> weights() const = 0;
  virtual std::span<Weight* const> state() const = 0;
  /// Where a forward pass puts the statistics of the batch: one array for all of the state.
  virtual std::span<float> statistics() = 0;
  virtual void weightsChanged() = 0;
  virtual void moveState(std::size_t samples) = 0;

  virtual double forward(const Batch& batch, const Pass& pass, std::size_t slot) = 0;
  virtual const float* output(std::size_t slot) const = 0;
  virtual void backward(const float* gradient, const GradientReady& ready, std::size_t slot) = 0;
  /// The gradient of the input from the last backward pass of the slot, valid until the next one.
  virtual const float* inputGradient(std::size_t slot) const = 0;
  /// The same text on all ranks of the part.
  virtual std::string firstNotFinite(std::size_t slot) const = 0;
  /// The exchanges of the last pass, in which this rank waited for the other ranks of the part.
  virtual std::span<const Exchange> exchanges() const { return {}; }

  virtual Score evaluate(const Batch& batch) = 0;
  virtual const float* evaluateOutput(const Batch& batch) = 0;
};

} // namespace rondo::training
