// A part of a model that is on one rank only, run by a Replica.
#pragma once

#include <span>
#include <string>

#include "train/loop/replica.h"
#include "train/parallel/part_model.h"

namespace rondo::training {

class ReplicaPart : public PartModel {
 public:
  /// `replica` must outlive this object.
  explicit ReplicaPart(Replica& replica) : replica_(replica), network_(replica.network()) {}

  const SampleShape& inputShape() const override { return network_.inputShape(); }
  const SampleShape& outputShape() const override { return network_.outputShape(); }

  std::span<Weight* const> weights() const override { return replica_.weights(); }
  std::span<Weight* const> state() const override { return replica_.state(); }
  std::span<float> statistics() override { return replica_.statistics(); }
  void weightsChanged() override { network_.weightsChanged(); }
  void moveState(std::size_t samples) override {
    if (!replica_.state().empty()) network_.moveState(samples);
  }

  double forward(const Batch& batch, const Pass& pass, std::size_t slot) override {
    return network_.forward(batch, pass, slot);
  }
  const float* output(std::size_t slot) const override { return network_.output(slot); }
  void backward(const float* gradient, const GradientReady& ready, std::size_t slot) override {
    network_.backward(gradient, ready, slot);
  }
  const float* inputGradient(std::size_t slot) const override {
    return network_.inputGradient(slot);
  }
  std::string firstNotFinite(std::size_t slot) const override {
    return network_.firstNotFinite(slot);
  }

  Score evaluate(const Batch& batch) override { return network_.evaluate(batch); }
  const float* evaluateOutput(const Batch& batch) override {
    return network_.evaluateOutput(batch);
  }

 private:
  Replica& replica_;
  Network& network_;
};

} // namespace rondo::training
