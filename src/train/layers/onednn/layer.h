// Interface of a layer that is built by oneDNN for batches of one size.
#pragma once

#include <memory>

#include "train/layers/layer.h"
#include "train/layers/node.h"
#include "train/layers/onednn/site.h"

namespace rondo::training::onednn {

/// Passes only run primitives.
using Layer = LayerOn<Tensor>;

/// The arguments of a layer's constructor.
struct Blueprint {
  Site& site;
  const Node& node;
  Tensor in;
  bool relu; ///< a ReLU follows, which the layer computes too
  /// True for a convolution whose ReLU a max pool follows, and for that pool. The convolution
  /// leaves the ReLU's backward pass to the pool, which applies it to its own, smaller output. The
  /// gradient is the same: that of a window goes to its maximum, and the ReLU stops it where that
  /// is zero.
  bool pooled_relu = false;
};

// build() of each layer
#define LAYER(Type, name) std::unique_ptr<Layer> build(const Type& value, const Blueprint& from);
#include "train/layers/layers.def"
#undef LAYER

/// Whether a layer can compute the ReLU after it in the same primitive.
template <class Value>
inline constexpr bool kTakesRelu = false;
template <>
inline constexpr bool kTakesRelu<Linear> = true;
template <>
inline constexpr bool kTakesRelu<Convolution> = true;
template <>
inline constexpr bool kTakesRelu<BatchNorm> = true;
template <>
inline constexpr bool kTakesRelu<Residual> = true;

} // namespace rondo::training::onednn
