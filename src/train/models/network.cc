// Keeps a model's weights, and one program for each batch size, purpose and slot.
#include "train/models/network.h"

#include <algorithm>

#include "rondo/error.h"
#include "train/models/model.h"
#include "train/random.h"

namespace rondo::training {

namespace {

/// Appends the weights and the running statistics of the nodes in order of definition, and numbers
/// them in this order.
void collect(const std::vector<Node>& nodes, std::vector<Weight*>& weights,
             std::vector<Weight*>& state) {
  const auto add = [](const std::vector<Weight*>& own, std::vector<Weight*>& all) {
    for (Weight* weight : own) {
      weight->number = all.size();
      all.push_back(weight);
    }
  };
  for (const Node& node : nodes) {
    add(node.weights, weights);
    add(node.state, state);
    collect(node.body, weights, state);
    collect(node.shortcut, weights, state);
  }
}

} // namespace

Network::Network(const std::string& model, const SampleShape& input, std::size_t classes,
                 Compute compute)
    : Network(training::model(model, input, classes), input, kAllLayers, compute) {}

Network::Network(const LayerValues& layers, const SampleShape& input, LayerRange part,
                 Compute compute)
    : begins_(part.begin == 0), ends_(part.end >= layers.size()), compute_(compute) {
  if (!compute_.gpu) cpuLayers(); // an error names the reason here, before anything is built
  const std::vector<Node> all = place(layers, input, "", all_);
  const auto at = [&](std::size_t layer) {
    return all.begin() + static_cast<std::ptrdiff_t>(layer);
  };
  nodes_.assign(at(part.begin), at(std::min(part.end, all.size())));
  collect(nodes_, weights_, state_);
  folded_.emplace(nodes_);
}

void Network::shareWeights(Before before, bool weights_stay) {
  before_ = std::move(before);
  weights_stay_ = weights_stay;
}

void Network::initialise(std::uint64_t seed, const std::function<void(const Weight&)>& written) {
  Random random(seed);
  for (auto* weights : {&all_.learned, &all_.state})
    for (Weight& weight : *weights) {
      for (std::size_t i = 0, count = weight.size(); i < count; ++i) {
        const double drawn = weight.spread > 0 ? weight.spread * random.symmetric() : 0;
        // Random numbers are drawn for all layers, also those that are not in this part, so that
        // the layers after them get the same values as in the whole network.
        if (weight.value) weight.value[i] = static_cast<float>(weight.start + drawn);
      }
      if (written && weight.value) written(weight);
    }
  weightsChanged();
}

void Network::weightsChanged() {
  ++version_;
  stale_ = true;
}

void Network::moveState(std::size_t samples) {
  const float scale = 1.0F / static_cast<float>(samples);
  for (Weight* weight : state_)
    for (std::size_t i = 0, count = weight->size(); i < count; ++i)
      weight->value[i] += BatchNorm::kNewest * (scale * weight->gradient[i] - weight->value[i]);
  weightsChanged();
}

double Network::forward(const Batch& batch, const Pass& pass, std::size_t slot) {
  if (slot >= passed_.size()) passed_.resize(slot + 1);
  passed_[slot] = &program(batch.count, true, slot);
  stale_ = stale_ || !state_.empty(); // a training pass may change the running statistics
  const double loss = passed_[slot]->forward(batch, pass);
  for (const Weight* weight : state_)
    for (std::size_t i = 0, size = weight->gradient ? weight->size() : 0; i < size; ++i)
      weight->gradient[i] *= static_cast<float>(batch.count);
  return loss;
}

std::string Network::firstNotFinite(std::size_t slot) const {
  const std::size_t layer = passed_[slot]->firstNotFinite();
  if (layer < nodes_.size()) return "layer " + nodes_[layer].path;
  return ends_ ? "the loss" : "";
}

Score Network::evaluate(const Batch& batch) {
  if (weights_stay_) folded();
  return program(batch.count, false, 0).evaluate(batch);
}

const float* Network::evaluateOutput(const Batch& batch) {
  evaluate(batch);
  return program(batch.count, false, 0).output();
}

const std::vector<Node>& Network::folded() {
  if (stale_) {
    folded_->refresh();
    ++folded_version_;
    stale_ = false;
  }
  return folded_->nodes();
}

Program& Network::program(std::size_t count, bool training, std::size_t slot) {
  auto& made = programs_[{count, training, slot}];
  if (made) return *made;
  const bool folds = !training && weights_stay_;
  const Binding binding{.input = inputShape(),
                        .count = count,
                        .training = training,
                        .version = folds ? &folded_version_ : &version_,
                        .ends = ends_,
                        .begins = begins_,
                        .before = before_ && !folds ? &before_ : nullptr,
                        .weights_stay = weights_stay_,
                        .precision = compute_.precision};
  const std::vector<Node>& nodes = folds ? folded_->nodes() : nodes_;
  made = compute_.gpu ? gpuLayers().make(nodes, binding, *compute_.gpu)
                      : cpuLayers().make(nodes, binding);
  return *made;
}

} // namespace rondo::training
