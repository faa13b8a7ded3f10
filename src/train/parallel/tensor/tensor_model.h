// A model, or some of its layers, whose features are cut between ranks: its passes, and what they
// send.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/aligned.h"
#include "train/models/network.h"
#include "train/parallel/part_model.h"
#include "train/parallel/tensor/slices.h"

namespace rondo::training {

/// One thread. The ranks of `line` call the same in the same order, with the same batches. Where a
/// part begins or ends between columns and rows, what comes in and goes out are this rank's
/// features; else they are all of them, the same on all ranks.
class TensorModel : public PartModel {
 public:
  /// Has the part of the values that the seed gives to the whole model; at no time holds more than
  /// its part and one weight. Errors as of tensorPlan() and Network. What is passed by reference
  /// must live as long.
  TensorModel(Communicator& line, const LayerValues& layers, const SampleShape& input,
              std::uint64_t seed, LayerRange part = kAllLayers, Compute compute = {});

  const SampleShape& inputShape() const override { return segments_.front().network->inputShape(); }
  const SampleShape& outputShape() const override {
    return segments_.back().network->outputShape();
  }

  /// In the order of the whole model's weights, named as there.
  std::span<Weight* const> weights() const override { return learned_; }
  std::span<Weight* const> state() const override { return {}; }
  std::span<float> statistics() override { return {}; }
  void weightsChanged() override;
  void moveState(std::size_t) override {}

  /// The sum of the samples' losses, the same on all ranks of the line.
  double forward(const Batch& batch, const Pass& pass, std::size_t slot) override;
  const float* output(std::size_t slot) const override;
  void backward(const float* gradient, const GradientReady& ready, std::size_t slot) override;
  const float* inputGradient(std::size_t) const override { return input_gradient_; }
  std::string firstNotFinite(std::size_t slot) const override;
  std::span<const Exchange> exchanges() const override { return exchanges_; }
  Score evaluate(const Batch& batch) override;
  const float* evaluateOutput(const Batch& batch) override;

  /// A weight of these layers of the whole model.
  struct Whole {
    std::string name;
    std::vector<std::size_t> shape;
    std::size_t size;
    std::size_t number; ///< among the whole model's
    std::size_t place;  ///< among weights(); kNone: this rank has nothing of it
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const std::vector<Whole>& whole() const { return whole_; }
  /// Collective over the line. `own` are this rank's values that belong to the weight, perhaps
  /// none; rank 0 of the line gets all of them into `to`.
  void gather(const Whole& weight, std::span<const float> own, float* to);
  /// Takes this rank's part of the weight out of all of it.
  void take(const Whole& weight, const float* from, float* own) const {
    plans_[rank_].weights[weight.number].take(from, own);
  }

 private:
  using Floats = AlignedVector<float>;
  struct Segment {
    std::unique_ptr<Network> network;
    LayerSums sums;
    std::vector<Floats> outputs; ///< summed up, by slot
    Floats evaluated, gradient;
    std::vector<std::size_t> places; ///< of its weights among weights()
  };

  void makeSegments(const SampleShape& input, LayerRange part, Compute compute);
  void findWeights(const LayerValues& layers, const SampleShape& input, LayerRange part);
  void placeWeights();
  void initialise(const LayerValues& layers, const SampleShape& input, std::uint64_t seed);
  const float* sum(Floats& to, const float* values, std::size_t count);
  Batch evaluateFront(const Batch& batch);

  Communicator& line_;
  const std::size_t rank_;
  const std::vector<TensorPlan> plans_; ///< of each rank
  const bool begins_, ends_;            ///< with samples, with the loss
  std::vector<Segment> segments_;
  std::vector<Weight*> learned_;
  std::vector<Whole> whole_;
  Floats values_, unlearned_;       ///< biases that other ranks have: zeros, and gradients
  std::vector<std::size_t> counts_; ///< samples of the last pass forward, by slot
  const float* input_gradient_ = nullptr;
  std::vector<Exchange> exchanges_;
};

} // namespace rondo::training
