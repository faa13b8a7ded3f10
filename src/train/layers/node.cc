// Finds each layer's shapes from the one before it, and gives its weights their names.
#include "train/layers/node.h"

#include "rondo/error.h"

namespace rondo::training {

namespace {

/// Adds them to `all`, named by the layer, and gives where they stand.
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

Node placeOne(const LayerValue& value, const SampleShape& in, const std::string& path,
              Weights& weights) {
  return std::visit(
      [&](const auto& layer) {
        Node node{.value = value, .in = in, .out = layer.output(in)};
        Learned learned = layer.learned(in);
        node.weights = keep(std::move(learned.weights), path, weights.learned);
        node.state = keep(std::move(learned.state), path, weights.state);
        return node;
      },
      value);
}

} // namespace

std::vector<Node> place(const LayerValues& values, SampleShape in, const std::string& path,
                        Weights& weights) {
  std::vector<Node> nodes;
  for (const LayerValue& value : values) {
    const std::string name = path + std::to_string(nodes.size());
    try {
      nodes.push_back(placeOne(value, in, name, weights));
    } catch (const Error& error) {
      throw Error(error.code(), "layer " + name + ": " + error.what());
    }
    in = nodes.back().out;
  }
  return nodes;
}

} // namespace rondo::training
