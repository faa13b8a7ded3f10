// Some of a model's layers, or all of them, as a stage of a pipeline runs them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "train/loop/stopwatch.h"
#include "train/models/network.h"

namespace rondo::training {

/// The functions mean what those of Network do, which one rank has to itself; behind this there may
/// be several ranks with the same batches, who then call the same in the same order. One thread.
class PartModel {
 public:
  virtual ~PartModel() = default;

  /// Of one sample, on its way in and out; what this rank has of it.
  virtual const SampleShape& inputShape() const = 0;
  virtual const SampleShape& outputShape() const = 0;

  /// What this rank learns of the part; they have values. The owner gives the gradients memory.
  virtual std::span<Weight* const> weights() const = 0;
  virtual std::span<Weight* const> state() const = 0;
  /// Where a forward pass puts the batch's own statistics: one array for all of the state.
  virtual std::span<float> statistics() = 0;
  virtual void weightsChanged() = 0;
  virtual void moveState(std::size_t batches) = 0;

  virtual double forward(const Batch& batch, const Pass& pass, std::size_t slot) = 0;
  virtual const float* output(std::size_t slot) const = 0;
  virtual void backward(const float* gradient, const GradientReady& ready, std::size_t slot) = 0;
  /// Of the slot's pass back, valid until the next one.
  virtual const float* inputGradient(std::size_t slot) const = 0;
  /// The same on all ranks that are behind this.
  virtual std::string firstNotFinite(std::size_t slot) const = 0;
  /// Of the last pass, in which this waited for the other ranks behind it.
  virtual std::span<const Exchange> exchanges() const { return {}; }

  virtual Score evaluate(const Batch& batch) = 0;
  virtual const float* evaluateOutput(const Batch& batch) = 0;
};

} // namespace rondo::training
