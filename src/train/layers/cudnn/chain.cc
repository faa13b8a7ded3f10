#include "train/layers/cudnn/chain.h"

#include <algorithm>

#include "train/layers/cudnn/kernels.h"

namespace rondo::training::cudnn {

namespace {

bool learns(const Node& node) {
  return !node.weights.empty() || std::any_of(node.body.begin(), node.body.end(), learns) ||
         std::any_of(node.shortcut.begin(), node.shortcut.end(), learns);
}

/// Runs an operation of a layer and adds the layer to its errors, by the name of the innermost
/// layer, which contains the whole path. An error with a culprit was caused by another rank, not by
/// a layer.
template <class Do>
void at(const Node& node, Do&& run) {
  try {
    run();
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.starts_with("layer ") || error.culprit() >= 0) throw;
    throw Error(error.code(), "layer " + node.path + ": " + what);
  }
}

} // namespace

Chain::Chain(Site& site, const std::vector<Node>& nodes, const Tensor& in, const Before* before)
    : site_(site), nodes_(nodes), before_(before) {
  output_ = in;
  for (const Node& node : nodes)
    at(node, [&] {
      const Blueprint from{.site = site, .node = node, .in = output_};
      layers_.push_back(
          std::visit([&](const auto& value) { return build(value, from); }, node.value));
      output_ = layers_.back()->output();
    });
}

Tensor Chain::buildBack(const Tensor& gradient, bool wanted) {
  Tensor back = gradient;
  for (std::size_t i = layers_.size(); i-- > 0 && back;) {
    const auto before = nodes_.begin() + static_cast<std::ptrdiff_t>(i);
    const bool needed = wanted || std::any_of(nodes_.begin(), before, learns);
    at(nodes_[i], [&] { back = layers_[i]->buildBack(back, needed); });
  }
  return back;
}

void Chain::forward(const Batch& batch, const Pass& pass) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (before_) (*before_)(i);
    at(nodes_[i], [&] { layers_[i]->forward(batch, pass); });
  }
}

void Chain::backward(const GradientReady& ready) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (before_) (*before_)(i);
    at(nodes_[i], [&] { layers_[i]->backward(ready); });
    // The callee of `before` may free this layer's memory when the next layer begins, so its
    // gradients are delivered now. Without it, all kernels are queued first, and gradients are
    // awaited while kernels of earlier layers run.
    if (before_) site_.deliver(ready);
  }
}

std::size_t Chain::firstNotFinite() const {
  const std::size_t layers = layers_.size();
  if (!found_) {
    found_ = site_.onDevice<std::uint8_t>(layers);
    seen_ = site_.pinned<std::uint8_t>(layers);
  }
  check(cudaMemsetAsync(found_.get(), 0, layers, site_.stream()), "cudaMemsetAsync");
  for (std::size_t i = 0; i < layers; ++i) {
    const Tensor& made = layers_[i]->output();
    run(FiniteCall{made.data, site_.size(made), found_.get() + i}, site_.stream());
  }
  site_.copy(seen_.get(), static_cast<const std::uint8_t*>(found_.get()), layers,
             cudaMemcpyDeviceToHost);
  site_.wait("the check for values that are not finite");
  return static_cast<std::size_t>(std::find(seen_.get(), seen_.get() + layers, 1) - seen_.get());
}

} // namespace rondo::training::cudnn
