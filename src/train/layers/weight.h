// What a layer learns, and what it keeps without learning it.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace rondo::training {

/// Values and gradients are in plain layouts, whatever a backend computes with: linear [out x in],
/// convolution [out x in x height x width]. So hashes, checkpoints and hooks all see the same.
/// The memory, 64-byte aligned, is the owner's; layers read the pointers anew in every pass.
struct Weight {
  std::string name; ///< "3.weight": the layer's number or path in the model, then its own name
  std::vector<std::size_t> shape;
  std::size_t number = 0; ///< among the network's weights, or among its state
  bool decays = false;    ///< weight decay and layer-wise rates apply: matrices and filters
  double start = 0;       ///< initial values are drawn evenly from start - spread to start + spread
  double spread = 0;
  float* value = nullptr;
  /// Written, not added to, by the pass back. Of a running statistic: the pass forward writes the
  /// batch's own statistic here and leaves the value alone; if null, it moves the value.
  float* gradient = nullptr;

  std::size_t size() const {
    return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  }
};

} // namespace rondo::training
