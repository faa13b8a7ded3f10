// Runs a model, or some of its layers, whose features are cut between the ranks of a line.
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

/// One thread. The ranks of `line` make the same calls in the same order, with the same batches. If
/// a part begins or ends between a layer cut by columns and one cut by rows, its input or output is
/// this rank's features; otherwise it is all features, the same on all ranks.
class TensorModel : public PartModel {
 public:
  /// Initialises its slices to the values that the seed gives the whole model; never holds more
  /// than its slices and one whole weight. Throws the errors of tensorPlan() and Network.
  /// References must outlive this object.
  TensorModel(Communicator& line, const LayerValues& layers, const SampleShape& input,
              std::uint64_t seed, LayerRange part = kAllLayers, Compute compute = {});

  const SampleShape& inputShape() const override { return segments_.front().network->inputShape(); }
  const SampleShape& outputShape() const override {
    return segments_.back().network->outputShape();
  }

  /// In the order of the whole model's weights, with the same names.
  std::span<Weight* const> weights() const override { return learned_; }
  std::span<Weight* const> state() const override { return {}; }
  std::span<float> statistics() override { return {}; }
  void weightsChanged() override;
  void moveState(std::size_t) override {}

  /// Returns the sum of the samples' losses, the same on all ranks of the line.
  double forward(const Batch& batch, const Pass& pass, std::size_t slot) override;
  const float* output(std::size_t slot) const override;
  void backward(const float* gradient, const GradientReady& ready, std::size_t slot) override;
  const float* inputGradient(std::size_t) const override { return input_gradient_; }
  std::string firstNotFinite(std::size_t slot) const override;
  std::span<const Exchange> exchanges() const override { return exchanges_; }
  Score evaluate(const Batch& batch) override;
  const float* evaluateOutput(const Batch& batch) override;

  /// A whole weight of these layers.
  struct Whole {
    std::string name;
    std::vector<std::size_t> shape;
    std::size_t size;
    std::size_t number; ///< index among the weights of the whole model
    std::size_t place;  ///< index in weights(); kNone if this rank has no part of it
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const std::vector<Whole>& whole() const { return whole_; }
  /// Whether the weight is replicated: every rank of the line has it.
  bool isEverywhere(const Whole& weight) const {
    return plans_[rank_].weights[weight.number].cut == Cut::everywhere;
  }
  /// Collective over the line. `own` is this rank's slice of the weight, which may be empty. The
  /// first rank of the line gets the whole weight in `to`.
  void gather(const Whole& weight, std::span<const float> own, float* to);
  /// Copies this rank's slice out of a whole weight.
  void take(const Whole& weight, const float* from, float* own) const {
    plans_[rank_].weights[weight.number].take(from, own);
  }

 private:
  using Floats = AlignedVector<float>;
  struct Segment {
    std::unique_ptr<Network> network;
    LayerSums sums;
    std::vector<Floats> outputs; ///< sums of the outputs, by slot
    Floats evaluated, gradient;
    std::vector<std::size_t> places; ///< index of each of its weights in weights()
  };

  void makeSegments(const SampleShape& input, LayerRange part, Compute compute);
  void findWeights(const LayerValues& layers, const SampleShape& input, LayerRange part);
  void placeWeights();
  void initialise(const LayerValues& layers, const SampleShape& input, std::uint64_t seed,
                  Compute compute);
  const float* sum(Floats& to, const float* values, std::size_t count);
  Batch evaluateFront(const Batch& batch);

  Communicator& line_;
  const std::size_t rank_;
  const std::vector<TensorPlan> plans_; ///< of each rank
  const bool begins_, ends_;            ///< has the first layer; has the loss
  std::vector<Segment> segments_;
  std::vector<Weight*> learned_;
  std::vector<Whole> whole_;
  /// For biases that another rank has: zeros as values, and memory for gradients.
  Floats values_, unlearned_;
  std::vector<std::size_t> counts_; ///< samples of the last forward pass, by slot
  const float* input_gradient_ = nullptr;
  std::vector<Exchange> exchanges_;
};

} // namespace rondo::training
