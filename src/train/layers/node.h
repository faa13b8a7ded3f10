// A layer in its place in a network: what goes in and out, and the weights that are its own.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "train/layers/values.h"

namespace rondo::training {

/// Where a network's weights stand, so that nodes can point to them; in order of definition.
struct Weights {
  std::deque<Weight> learned, state;
};

struct Node {
  LayerValue value;
  SampleShape in, out;
  std::vector<Weight*> weights{}, state{}; ///< in the order of the value's learned()
};

/// Places the layers one behind the other, the first on samples of shape `in`, and adds what they
/// learn to `weights`, its names beginning with `path`. Errors name the layer.
std::vector<Node> place(const LayerValues& values, SampleShape in, const std::string& path,
                        Weights& weights);

} // namespace rondo::training
