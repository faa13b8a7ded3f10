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
  std::string path; ///< "3", or "3.body.0"
  SampleShape in, out;
  std::vector<Weight*> weights{}, state{}; ///< in the order of the value's learned()
  std::vector<Node> body{}, shortcut{};    ///< a residual's
};

/// Places the layers one behind the other, the first on samples of shape `in`, and adds what they
/// learn to `weights`, its names beginning with `path`. Errors name the layer.
std::vector<Node> place(const LayerValues& values, SampleShape in, const std::string& path,
                        Weights& weights);

} // namespace rondo::training
