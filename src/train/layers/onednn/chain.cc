// Builds layers from nodes, fusing a ReLU into the layer before it if possible.
#include "train/layers/onednn/chain.h"

#include <algorithm>
#include <cmath>

#include "train/layers/onednn/describe.h"

namespace rondo::training::onednn {

namespace {

bool takesRelu(const LayerValue& value) {
  return std::visit([](const auto& layer) { return kTakesRelu<std::decay_t<decltype(layer)>>; },
                    value);
}

/// Whether nodes[i] is a convolution before a ReLU and a max pool.
bool pooledRelu(const std::vector<Node>& nodes, std::size_t i) {
  return i + 2 < nodes.size() && std::holds_alternative<Convolution>(nodes[i].value) &&
         std::holds_alternative<Relu>(nodes[i + 1].value) &&
         std::holds_alternative<MaxPool>(nodes[i + 2].value);
}

bool finite(const Tensor& tensor) {
  const std::size_t bytes = tensor.get_desc().get_size();
  if (typeOf(tensor.get_desc()) == Type::bf16) {
    // A value with all of these bits set is infinite or NaN.
    constexpr std::uint16_t kExponent = 0x7F80;
    const auto* const values = static_cast<const std::uint16_t*>(tensor.get_data_handle());
    return std::none_of(values, values + bytes / sizeof *values,
                        [](std::uint16_t value) { return (value & kExponent) == kExponent; });
  }
  const auto* const values = static_cast<const float*>(tensor.get_data_handle());
  return std::all_of(values, values + bytes / sizeof *values,
                     [](float value) { return std::isfinite(value); });
}

bool learns(const Node& node) {
  return !node.weights.empty() || std::any_of(node.body.begin(), node.body.end(), learns) ||
         std::any_of(node.shortcut.begin(), node.shortcut.end(), learns);
}

} // namespace

Chain::Chain(Site& site, const std::vector<Node>& nodes, const Tensor& in, const Before* before)
    : site_(site), nodes_(nodes.size()), before_(before) {
  output_ = in;
  const std::uint64_t mark = site_.mark();
  bool behind_learners = false;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const bool relu = takesRelu(node.value) && i + 1 < nodes.size() &&
                      std::holds_alternative<Relu>(nodes[i + 1].value);
    const bool pooled_relu = pooledRelu(nodes, i) || (i >= 2 && pooledRelu(nodes, i - 2));
    const auto add = [&](const auto& value) {
      links_.push_back({build(value, {.site = site,
                                      .node = node,
                                      .in = output_,
                                      .relu = relu,
                                      .pooled_relu = pooled_relu}),
                        behind_learners, i});
      output_ = links_.back().layer->output();
      site_.release(mark, output_);
    };
    // A linear layer may get channels of 1 x 1 places as features.
    if (std::holds_alternative<Linear>(node.value) && dimsOf(output_.get_desc()).size() > 2)
      add(Flatten{});
    std::visit(add, node.value);
    behind_learners = behind_learners || learns(node);
    if (relu) ++i;
  }
}

Tensor Chain::buildBack(const Tensor& gradient, bool wanted) {
  Tensor back = gradient;
  const std::uint64_t mark = site_.mark();
  for (std::size_t i = links_.size(); i-- > 0 && back;) {
    back = links_[i].layer->buildBack(back, wanted || links_[i].behind_learners);
    site_.release(mark, back);
  }
  return back;
}

void Chain::forward(const Batch& batch, const Pass& pass) {
  for (const Link& link : links_) {
    announce(link);
    link.layer->forward(batch, pass);
  }
}

void Chain::backward(const GradientReady& ready) {
  for (std::size_t i = links_.size(); i-- > 0;) {
    announce(links_[i]);
    links_[i].layer->backward(ready);
  }
}

std::size_t Chain::firstNotFinite() const {
  for (const Link& link : links_)
    if (!finite(link.layer->output())) return link.node;
  return nodes_;
}

} // namespace rondo::training::onednn
