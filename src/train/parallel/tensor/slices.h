// Linear layers and convolutions cut between ranks, as a value: whose features are whose, and where
// sums are needed.
#pragma once

#include <cstddef>
#include <vector>

#include "train/data/sampler.h"
#include "train/layers/values.h"
#include "train/models/network.h"

namespace rondo::training {

/// What the ranks of a line have of a weight each.
enum class Cut {
  columns,    ///< its values for some of the layer's outputs
  rows,       ///< its values for some of the layer's inputs
  first_rank, ///< the first rank all of it, the others nothing
  everywhere, ///< all of it
};

/// A weight of the whole model as [outer x features x inner], and what one rank has of it.
struct WeightSlice {
  std::size_t outer, features, inner;
  Range own; ///< of the features; perhaps none
  Cut cut;

  std::size_t size() const { return outer * own.size() * inner; }
  /// Copies what this rank has out of a whole weight; and the way back.
  void take(const float* whole, float* own_values) const;
  void put(const float* own_values, float* whole) const;
};

/// What the ranks add up at a layer.
struct LayerSums {
  bool output = false;   ///< what it makes
  bool gradient = false; ///< the gradient of what comes in
};

struct TensorPlan {
  LayerValues layers; ///< with this rank's features: each fits what the one before it makes
  std::vector<WeightSlice> weights; ///< in the model's order
  std::vector<LayerSums> sums;      ///< of each layer
};

/// Cuts linear layers and convolutions by columns (each rank makes some of the outputs, from all
/// inputs) and by rows (each takes some of the inputs; the outputs are sums over the ranks) in
/// turn, as in Megatron: a pair of them, with what stands between, needs one sum on the way forward
/// and one on the way back. A last one that is left over stays whole. Behind a last layer that is
/// summed up there is one that changes nothing, since the loss needs a layer before it. Throws
/// Error(invalid_argument) that names the layer, for one that does not treat each feature by
/// itself, and for one with fewer features than ranks. (Shoeybi et al., Megatron-LM, 2019.)
TensorPlan tensorPlan(const LayerValues& layers, const SampleShape& input, std::size_t ranks,
                      std::size_t rank);

/// That of each rank.
std::vector<TensorPlan> tensorPlans(const LayerValues& layers, const SampleShape& input,
                                    std::size_t ranks);

/// Runs of layers that a rank computes without asking others: from a sum to the next one.
std::vector<LayerRange> segments(const TensorPlan& plan, LayerRange layers);

/// Floats that ranks take part in summing up for one sample, on the way through some layers.
struct SummedFloats {
  std::size_t forward = 0, backward = 0;
};
SummedFloats summedFloats(const TensorPlan& plan, const SampleShape& input, LayerRange layers);

/// Weights of all ranks together.
std::size_t learnedFloats(const std::vector<TensorPlan>& plans);

} // namespace rondo::training
