// A model of linear layers whose features are cut between ranks: its passes, and what they send.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/aligned.h"
#include "train/models/network.h"
#include "train/parallel/tensor/slices.h"

namespace rondo::training {

/// One thread. The ranks of `line` call the same in the same order, with the same batches.
class TensorModel {
 public:
  /// Has the part of the values that the seed gives to the whole model; at no time holds more than
  /// its part and one weight. Errors as of tensorPlan() and Network.
  TensorModel(Communicator& line, const LayerValues& layers, const SampleShape& input,
              std::uint64_t seed);

  /// What this rank learns, in the order of the whole model's weights, named as there. The owner
  /// gives the gradients memory.
  std::span<Weight* const> weights() const { return learned_; }
  void weightsChanged();

  /// The sum of the samples' losses, the same on all ranks of the line.
  double forward(const Batch& batch, const Pass& pass);
  /// ready(i) says that weights()[i] has its gradient.
  void backward(const Ready& ready);
  Score evaluate(const Batch& batch);
  /// Floats that a rank of the line takes part in summing up in a step, for one sample.
  std::size_t summedFloats() const;
  /// Weights of all ranks of the line.
  std::size_t learnedFloats() const;

  /// A weight of the whole model.
  struct Whole {
    std::string name;
    std::vector<std::size_t> shape;
    std::size_t size;
  };
  const std::vector<Whole>& whole() const { return whole_; }
  /// Collective over the line. `own(weight)` are this rank's values that belong to whole()[weight],
  /// perhaps none; rank 0 of the line gets all of them into `to`.
  void gather(std::size_t weight, std::span<const float> own, float* to);
  /// Takes this rank's part of whole()[weight] out of all of it.
  void take(std::size_t weight, const float* from, float* own) const;
  /// The place of whole()[weight] among weights(); kNone: this rank has nothing of it.
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t place(std::size_t weight) const { return place_[weight]; }

 private:
  struct Segment {
    TensorSegment plan;
    std::unique_ptr<Network> network;
    AlignedVector<float> input, gradient; ///< what comes in, and its gradient, summed up
    std::vector<std::size_t> places;      ///< of its weights among weights()
  };

  void makeSegments();
  void placeWeights();
  void initialise(const LayerValues& layers, const SampleShape& input, std::uint64_t seed);
  void sum(AlignedVector<float>& to, const float* values, std::size_t count, bool over_ranks);

  Communicator& line_;
  const std::size_t rank_;
  std::vector<TensorPlan> plans_; ///< of each rank
  std::vector<Segment> segments_;
  std::vector<Weight*> learned_;
  std::vector<Whole> whole_;
  std::vector<std::size_t> place_;
  AlignedVector<float> values_, unlearned_; ///< biases that other ranks have: zeros, and gradients
  std::size_t count_ = 0;                   ///< samples of the pass
};

} // namespace rondo::training
