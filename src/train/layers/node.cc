// Derives the shapes of each layer from the layer before it, and names its weights.
#include "train/layers/node.h"

#include "rondo/error.h"

namespace rondo::training {

namespace {

/// Adds the weights to `all`, prefixed with the name of the layer, and returns pointers to them.
std::vector<Weight*> keep(std::vector<Weight> own, const std::string& layer,
                          std::deque<Weight>& all) {
  std::vector<Weight*> kept;
  for (Weight& weight : own) {
    weight.name = layer + "." + weight.name;
    weight.number = all.size();
    kept.push_back(&all.emplace_back(std::move(weight)));
  }
  return kept;
}

template <class Value>
Node placeOne(const Value& value, const SampleShape& in, const std::string& path,
              Weights& weights) {
  Node node{.value = value, .path = path, .in = in, .out = value.output(in)};
  Learned learned = value.learned(in);
  node.weights = keep(std::move(learned.weights), path, weights.learned);
  node.state = keep(std::move(learned.state), path, weights.state);
  return node;
}

SampleShape shapeBehind(const std::vector<Node>& nodes, const SampleShape& in) {
  return nodes.empty() ? in : nodes.back().out;
}

std::string text(const SampleShape& shape) {
  return std::to_string(shape.channels) + " x " + std::to_string(shape.height) + " x " +
         std::to_string(shape.width);
}

Node placeOne(const Residual& value, const SampleShape& in, const std::string& path,
              Weights& weights) {
  Node node{.value = value, .path = path, .in = in, .out = in};
  node.body = place(value.body, in, path + ".body.", weights);
  node.shortcut = place(value.shortcut, in, path + ".shortcut.", weights);
  node.out = shapeBehind(node.body, in);
  const SampleShape other = shapeBehind(node.shortcut, in);
  if (node.out == other) return node;
  throw Error(ErrorCode::invalid_argument, "the residual's body outputs " + text(node.out) +
                                               ", but its shortcut " + text(other));
}

} // namespace

std::vector<Node> place(const LayerValues& values, SampleShape in, const std::string& path,
                        Weights& weights) {
  std::vector<Node> nodes;
  for (const LayerValue& value : values) {
    const std::string name = path + std::to_string(nodes.size());
    try {
      nodes.push_back(
          std::visit([&](const auto& layer) { return placeOne(layer, in, name, weights); }, value));
    } catch (const Error& error) {
      // The name of the innermost layer contains the whole path.
      const std::string what = error.what();
      throw Error(error.code(), what.starts_with("layer ") ? what : "layer " + name + ": " + what);
    }
    in = nodes.back().out;
  }
  return nodes;
}

} // namespace rondo::training
