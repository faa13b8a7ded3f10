#include "train/layers/cudnn/chain.h"

#include <algorithm>

#include "train/layers/cudnn/kernels.h"
#include "train/layers/cudnn/program.h"

namespace rondo::training::cudnn {

namespace {

bool learns(const Node& node) { return !node.weights.empty(); }

/// Runs what concerns a layer; errors name it.
template <class Do>
void at(const Node& node, Do&& run) {
  try {
    run();
  } catch (const Error& error) {
    throw Error(error.code(), "layer " + node.path + ": " + error.what());
  }
}

template <class Value>
concept Buildable = requires(const Value& value, const Blueprint& from) {
  build(value, from);
};

/// Builds the layer, or with no blueprint looks only whether it can be built.
template <class Value>
std::unique_ptr<Layer> buildOne(const Value& value, const Blueprint* from) {
  if constexpr (Buildable<Value>) return from ? build(value, *from) : nullptr;
  else
    throw Error(ErrorCode::unsupported,
                "device cuda has linear layers, ReLU, flattening and "
                "dropout, not this layer");
}

} // namespace

void requireLayers(const std::vector<Node>& nodes) {
  for (const Node& node : nodes)
    at(node, [&] { std::visit([](const auto& value) { buildOne(value, nullptr); }, node.value); });
}

Chain::Chain(Site& site, const std::vector<Node>& nodes, const Tensor& in)
    : site_(site), nodes_(nodes), output_(in) {
  for (const Node& node : nodes)
    at(node, [&] {
      const Blueprint from{.site = site, .node = node, .in = output_};
      layers_.push_back(
          std::visit([&](const auto& value) { return buildOne(value, &from); }, node.value));
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
  const Before* const before = site_.binding().before;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (before) (*before)(i);
    at(nodes_[i], [&] { layers_[i]->forward(batch, pass); });
  }
}

void Chain::backward(const Ready& ready) {
  const Before* const before = site_.binding().before;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (before) (*before)(i);
    at(nodes_[i], [&] { layers_[i]->backward(); });
    // Who is asked before each layer may take its memory away behind it. Else all kernels are put
    // on the stream first, and gradients are waited for while those of the layers before them run.
    if (before) site_.deliver(ready);
  }
  site_.deliver(ready);
}

std::size_t Chain::firstNotFinite() const {
  const std::size_t layers = layers_.size();
  const auto found = site_.onDevice<std::uint8_t>(layers);
  check(cudaMemsetAsync(found.get(), 0, layers, site_.stream()), "cudaMemsetAsync");
  for (std::size_t i = 0; i < layers; ++i) {
    const Tensor& made = layers_[i]->output();
    run(FiniteCall{made.data, site_.size(made), found.get() + i}, site_.stream());
  }
  std::vector<std::uint8_t> flags(layers);
  site_.copy(flags.data(), static_cast<const std::uint8_t*>(found.get()), layers,
             cudaMemcpyDeviceToHost);
  site_.wait();
  return static_cast<std::size_t>(std::find(flags.begin(), flags.end(), 1) - flags.begin());
}

} // namespace rondo::training::cudnn
