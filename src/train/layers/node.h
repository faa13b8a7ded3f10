// A layer at its place in a network: its input and output shapes, and its weights.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "train/layers/values.h"

namespace rondo::training {

/// The weights of a network, to which nodes point, in the order of definition.
struct Weights {
  std::deque<Weight> learned, state;
};

struct Node {
  LayerValue value;
  std::string path; ///< "3", or "3.body.0"
  SampleShape in, out;
  std::vector<Weight*> weights{}, state{}; ///< in the order of the value's learned()
  std::vector<Node> body{}, shortcut{};    ///< the two branches of a residual
};

/// Builds a sequence of nodes from layers, the first with samples of shape `in`. Adds their weights
/// to `weights`, with names that begin with `path`. Errors name the layer.
std::vector<Node> place(const LayerValues& values, SampleShape in, const std::string& path,
                        Weights& weights);

} // namespace rondo::training
