// Linear layers cut between ranks, as a value: whose features are whose, and where sums are needed.
#pragma once

#include <cstddef>
#include <vector>

#include "train/data/sampler.h"
#include "train/layers/values.h"

namespace rondo::training {

enum class LinearCut {
  columns, ///< each rank makes some of the outputs, from all inputs
  rows,    ///< each rank takes some of the inputs; the outputs are sums over the ranks
  whole,   ///< every rank does all of it
};

/// A linear layer of the model, and what one rank has of it. Its weight is [outputs x inputs].
struct LinearSlice {
  LinearCut cut;
  std::size_t outputs, inputs; ///< of the whole layer
  Range own;                   ///< of the outputs (columns), of the inputs (rows), of the outputs
  bool has_bias;               ///< whole, but for columns: a sum gets it from one rank alone

  std::size_t weightSize() const;
  std::size_t biasSize() const { return biasRange().size(); }
  /// Of the whole bias.
  Range biasRange() const;
  /// Copies what this rank has of a whole weight; and the way back.
  void takeWeight(const float* whole, float* own_values) const;
  void putWeight(const float* own_values, float* whole) const;
};

/// Layers that a rank runs without asking others: from a sum over the ranks to the next one.
struct TensorSegment {
  LayerValues layers; ///< with this rank's features
  SampleShape in;
  bool sums_output = false;   ///< ends with rows: what it makes is to be summed up
  bool sums_gradient = false; ///< begins with columns: so is the gradient of what comes in
};

struct TensorPlan {
  std::vector<LinearSlice> linears; ///< in the model's order
  std::vector<TensorSegment> segments;
};

/// Cuts linear layers by columns and by rows in turn, as in Megatron: a pair of them, with what
/// stands between, needs one sum on the way forward and one on the way back. A last one that is
/// left over stays whole. Throws Error(invalid_argument) that names the layer, for one that is
/// neither linear nor without dimensions of its own (Relu, Flatten), and for one with fewer
/// features than ranks. (Shoeybi et al., Megatron-LM, 2019.)
TensorPlan tensorPlan(const LayerValues& layers, const SampleShape& input, std::size_t ranks,
                      std::size_t rank);

} // namespace rondo::training
