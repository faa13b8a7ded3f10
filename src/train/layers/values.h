// Layers as values: what a model is a list of.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "train/data/batch.h"
#include "train/layers/weight.h"

namespace rondo::training {

/// What a layer learns and what it keeps, in a fixed order, each with its own name only.
struct Learned {
  std::vector<Weight> weights, state;
};

// Each value has output(), the shape that it makes of a sample's, and learned(), what it learns for
// samples of that shape. A shape that it cannot take is Error(invalid_argument).

/// y = x W^T + b
struct Linear {
  std::size_t outputs;

  SampleShape output(const SampleShape& in) const;
  Learned learned(const SampleShape& in) const;
};

/// max(x, 0)
struct Relu {
  SampleShape output(const SampleShape& in) const { return in; }
  Learned learned(const SampleShape&) const { return {}; }
};

/// channels x height x width as so many features, in this order
struct Flatten {
  SampleShape output(const SampleShape& in) const { return {in.size(), 1, 1}; }
  Learned learned(const SampleShape&) const { return {}; }
};

/// Square windows over the places, `stride` apart, over the edges by `padding`; what is left over
/// on the right and at the bottom is left out.
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

/// The highest value of a window. Padding never is.
struct MaxPool {
  Window window;

  SampleShape output(const SampleShape& in) const { return window.over(in); }
  Learned learned(const SampleShape&) const { return {}; }
};

/// The mean of a window, in which padding counts as zeros.
struct AveragePool {
  Window window;

  SampleShape output(const SampleShape& in) const { return window.over(in); }
  Learned learned(const SampleShape&) const { return {}; }
};

/// The mean of all places of a channel.
struct GlobalAveragePool {
  SampleShape output(const SampleShape& in) const { return {in.channels, 1, 1}; }
  Learned learned(const SampleShape&) const { return {}; }
};

/// y = weight (x - mean) / sqrt(variance + kEpsilon) + bias for each channel: in training by the
/// batch's statistics, in evaluation by the running ones, of which the variance is the unbiased
/// one.
struct BatchNorm {
  static constexpr float kEpsilon = 1e-5F;
  static constexpr float kNewest = 0.1F; ///< the share of a batch's statistics in the running ones

  SampleShape output(const SampleShape& in) const { return in; }
  Learned learned(const SampleShape& in) const;
};

/// In training, sets each value to zero with this probability and scales the others up, so that the
/// mean stays. Which ones depends on the step's seed, the layer's path and the sample's number
/// only.
struct Dropout {
  double rate; ///< at least 0, below 1

  SampleShape output(const SampleShape& in) const;
  Learned learned(const SampleShape&) const { return {}; }
};

struct Residual;
using LayerValue = std::variant<Linear, Relu, Flatten, Convolution, MaxPool, AveragePool,
                                GlobalAveragePool, BatchNorm, Dropout, Residual>;
using LayerValues = std::vector<LayerValue>;

/// body(x) + shortcut(x); an empty shortcut is x itself. place() finds its shape and weights.
struct Residual {
  LayerValues body, shortcut;
};

} // namespace rondo::training
