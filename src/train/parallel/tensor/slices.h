// How linear layers and convolutions are cut between ranks, as a value: which rank has which
// features, and where sums are needed.
#pragma once

#include <cstddef>
#include <vector>

#include "train/data/sampler.h"
#include "train/layers/values.h"
#include "train/models/network.h"

namespace rondo::training {

/// Which part of a weight each rank of a line has.
enum class Cut {
  columns,    ///< the values for some of the layer's outputs
  rows,       ///< the values for some of the layer's inputs
  first_rank, ///< the first rank has the whole weight, the others have nothing
  everywhere, ///< every rank has the whole weight
};

/// A weight of the whole model as [outer x features x inner], and one rank's slice of it.
struct WeightSlice {
  std::size_t outer, features, inner;
  Range own; ///< features of this rank; may be empty
  Cut cut;

  std::size_t size() const { return outer * own.size() * inner; }
  /// take() copies this rank's slice out of a whole weight; put() copies it back.
  void take(const float* whole, float* own_values) const;
  void put(const float* own_values, float* whole) const;
};

/// What the ranks all-reduce at a layer.
struct LayerSums {
  bool output = false;   ///< the output, in the forward pass
  bool gradient = false; ///< the gradient of the input, in the backward pass
};

struct TensorPlan {
  LayerValues layers;               ///< with this rank's features only
  std::vector<WeightSlice> weights; ///< in the order of the model
  std::vector<LayerSums> sums;      ///< one entry for each layer
};

/// Cuts linear layers and convolutions alternately by columns (each rank computes some outputs from
/// all inputs) and by rows (each rank uses some inputs; the outputs are summed over the ranks), as
/// in Megatron. Such a pair, with the layers between, needs one sum in the forward pass and one in
/// the backward pass. If one layer is left over at the end, it is not cut. If the last layer is
/// summed, an identity layer is added after it, because the loss needs an unsummed layer before it.
/// Throws Error(invalid_argument), which names the layer, for a layer that mixes features, and for
/// a layer with fewer features than ranks. (Shoeybi et al., Megatron-LM, 2019.)
TensorPlan tensorPlan(const LayerValues& layers, const SampleShape& input, std::size_t ranks,
                      std::size_t rank);

/// The plans of all ranks.
std::vector<TensorPlan> tensorPlans(const LayerValues& layers, const SampleShape& input,
                                    std::size_t ranks);

/// Divides the layers into runs that a rank computes without communication, from one sum to the
/// next.
std::vector<LayerRange> segments(const TensorPlan& plan, LayerRange layers);

/// Floats that the ranks all-reduce for one sample in a pass through some layers.
struct SummedFloats {
  std::size_t forward = 0, backward = 0;
};
SummedFloats summedFloats(const TensorPlan& plan, const SampleShape& input, LayerRange layers);

/// Floats of the weights of all ranks together.
std::size_t learnedFloats(const std::vector<TensorPlan>& plans);

} // namespace rondo::training
