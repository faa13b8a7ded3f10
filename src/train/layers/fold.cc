// Folds each pair of convolution and batch norm into one convolution, also inside residuals.
#include "train/layers/fold.h"

#include <cmath>

namespace rondo::training {

std::vector<Node> Folded::fold(const std::vector<Node>& nodes) {
  std::vector<Node> folded;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (std::holds_alternative<Convolution>(nodes[i].value) && i + 1 < nodes.size() &&
        std::holds_alternative<BatchNorm>(nodes[i + 1].value)) {
      folded.push_back(join(nodes[i], nodes[i + 1]));
      ++i;
      continue;
    }
    Node& node = folded.emplace_back(nodes[i]);
    if (!std::holds_alternative<Residual>(node.value)) continue;
    node.body = fold(nodes[i].body);
    node.shortcut = fold(nodes[i].shortcut);
    node.value = Residual{valuesOf(node.body), valuesOf(node.shortcut)};
  }
  return folded;
}

Node Folded::join(const Node& convolution, const Node& norm) {
  auto value = std::get<Convolution>(convolution.value);
  value.bias = true;
  Learned learned = value.learned(convolution.in);
  Pair& pair = pairs_.emplace_back(
      Pair{&convolution, &norm, learned.weights[0], learned.weights[1], {}, {}});
  pair.weights.resize(pair.weight.size());
  pair.biases.resize(pair.bias.size());
  pair.weight.value = pair.weights.data();
  pair.bias.value = pair.biases.data();
  for (Weight* weight : {&pair.weight, &pair.bias})
    weight->name = convolution.path + "." + weight->name;
  Node node = convolution;
  node.value = value;
  node.weights = {&pair.weight, &pair.bias};
  return node;
}

void Folded::refresh() {
  for (Pair& pair : pairs_) refresh(pair);
}

void Folded::refresh(Pair& pair) {
  const std::vector<Weight*>& own = pair.convolution->weights;
  const float *scale = pair.norm->weights[0]->value, *shift = pair.norm->weights[1]->value;
  const float *mean = pair.norm->state[0]->value, *variance = pair.norm->state[1]->value;
  const std::size_t channels = pair.biases.size(), filter = pair.weights.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    const double factor = static_cast<double>(scale[c]) /
                          std::sqrt(static_cast<double>(variance[c]) + double{BatchNorm::kEpsilon});
    for (std::size_t i = c * filter; i < (c + 1) * filter; ++i)
      pair.weights[i] = static_cast<float>(factor * static_cast<double>(own[0]->value[i]));
    const double bias = own.size() > 1 ? static_cast<double>(own[1]->value[c]) : 0;
    pair.biases[c] = static_cast<float>((bias - static_cast<double>(mean[c])) * factor +
                                        static_cast<double>(shift[c]));
  }
}

LayerValues valuesOf(const std::vector<Node>& nodes) {
  LayerValues values;
  for (const Node& node : nodes) values.push_back(node.value);
  return values;
}

} // namespace rondo::training
