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

using LayerValue = std::variant<Linear, Relu, Flatten>;
using LayerValues = std::vector<LayerValue>;

} // namespace rondo::training
