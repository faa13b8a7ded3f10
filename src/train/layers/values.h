// Layers as values: a model is a list of these.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "train/data/batch.h"
#include "train/layers/weight.h"

namespace rondo::training {

/// The weights and the state of a layer, in a fixed order, with names that are unique within the
/// layer.
struct Learned {
  std::vector<Weight> weights, state;
};

// Each value has output(), which returns the output shape for an input shape, and learned(), which
// returns the weights for that input shape. Both throw Error(invalid_argument) for a shape that the
// layer does not support. kByFeature: each output channel depends on one input channel only, so the
// layer can run on some of the channels.

/// y = x W^T + b
struct Linear {
  std::size_t outputs;

  SampleShape output(const SampleShape& in) const;
  Learned learned(const SampleShape& in) const;
};

/// max(x, 0)
struct Relu {
  static constexpr bool kByFeature = true;

  SampleShape output(const SampleShape& in) const { return in; }
  Learned learned(const SampleShape&) const { return {}; }
};

/// Channels x height x width as features, in this order.
struct Flatten {
  static constexpr bool kByFeature = true;

  SampleShape output(const SampleShape& in) const { return {in.size(), 1, 1}; }
  Learned learned(const SampleShape&) const { return {}; }
};

/// Square windows, `stride` places apart, that extend over the edges by `padding`. Places on the
/// right and at the bottom that do not fill a window are ignored.
struct Window {
  std::size_t kernel, stride = 1, padding = 0;

  SampleShape over(const SampleShape& in) const;
};

/// Each output channel has one filter over all input channels.
struct Convolution {
  std::size_t channels;
  Window window;
  bool bias = true;

  SampleShape output(const SampleShape& in) const;
  Learned learned(const SampleShape& in) const;
};

/// The maximum of a window. Padding is never the maximum.
struct MaxPool {
  static constexpr bool kByFeature = true;
  Window window;

  SampleShape output(const SampleShape& in) const { return window.over(in); }
  Learned learned(const SampleShape&) const { return {}; }
};

/// The mean of a window, in which padding counts as zeros.
struct AveragePool {
  static constexpr bool kByFeature = true;
  Window window;

  SampleShape output(const SampleShape& in) const { return window.over(in); }
  Learned learned(const SampleShape&) const { return {}; }
};

/// The mean of all places of a channel.
struct GlobalAveragePool {
  static constexpr bool kByFeature = true;

  SampleShape output(const SampleShape& in) const { return {in.channels, 1, 1}; }
  Learned learned(const SampleShape&) const { return {}; }
};

/// y = weight (x - mean) / sqrt(variance + kEpsilon) + bias for each channel. Training uses the
/// statistics of the batch, evaluation the running ones, with the unbiased variance.
struct BatchNorm {
  static constexpr float kEpsilon = 1e-5F;
  static constexpr float kNewest = 0.1F; ///< the weight of a batch's statistics in the running ones

  SampleShape output(const SampleShape& in) const { return in; }
  Learned learned(const SampleShape& in) const;
};

/// In training, sets each value to zero with probability `rate` and scales the others up, so that
/// the mean is preserved. Which values are dropped depends only on the seed of the step, the path
/// of the layer and the number of the sample.
struct Dropout {
  double rate; ///< at least 0, below 1

  SampleShape output(const SampleShape& in) const;
  Learned learned(const SampleShape&) const { return {}; }
};

struct Residual;

/// A variant of all types but the first: the list that LAYER makes below begins with a comma.
template <class First, class... Others>
struct VariantOfOthers {
  using type = std::variant<Others...>;
};

/// Any layer of layers.def.
using LayerValue = VariantOfOthers<void
#define LAYER(Type, name) , Type
#include "train/layers/layers.def"
#undef LAYER
                                   >::type;
using LayerValues = std::vector<LayerValue>;

/// body(x) + shortcut(x), where an empty shortcut is x itself. place() derives its shape and
/// weights.
struct Residual {
  LayerValues body, shortcut;
};

} // namespace rondo::training
