// A weight that a layer learns, or a running statistic that it keeps.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace rondo::training {

/// Values and gradients have plain layouts, whatever layout a backend computes with: linear [out x
/// in], convolution [out x in x height x width]. So hashes, checkpoints and hooks are independent
/// of backends. The owner provides the memory, aligned to 64 bytes. Layers read the pointers again
/// in every pass.
struct Weight {
  /// "3.weight": the number or path of the layer in the model, and the name of the weight
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t number = 0; ///< index among the network's weights, or among its state
  bool decays = false;    ///< weight decay and layer-wise rates apply (to matrices and filters)
  double start = 0;       ///< initial values are uniform between start - spread and start + spread
  double spread = 0;
  float* value = nullptr;
  /// The backward pass writes the gradient here, without adding to it. For a running statistic: if
  /// not null, the forward pass writes the statistic of the batch here, and the network multiplies
  /// it by the number of samples; if null, the pass updates the running value.
  float* gradient = nullptr;

  std::size_t size() const {
    return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  }
};

} // namespace rondo::training
