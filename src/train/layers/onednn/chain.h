// A sequence of layers.
#pragma once

#include <vector>

#include "train/layers/onednn/layer.h"

namespace rondo::training::onednn {

class Chain : public Layer {
 public:
  /// `nodes` and `before` must outlive this object. An empty chain outputs its input.
  Chain(Site& site, const std::vector<Node>& nodes, const Tensor& in,
        const Before* before = nullptr);

  Tensor buildBack(const Tensor& gradient, bool wanted) override;
  void forward(const Batch& batch, const Pass& pass) override;
  void backward(const GradientReady& ready) override;

  /// The index of the first node whose output in the last forward pass is not finite; the number of
  /// nodes if there is none.
  std::size_t firstNotFinite() const;

 private:
  struct Link {
    std::unique_ptr<Layer> layer;
    bool behind_learners; ///< a layer before it has weights, and so needs a gradient
    std::size_t node;     ///< index of its node
  };

  void announce(const Link& link) const {
    if (before_ != nullptr) (*before_)(link.node);
  }

  Site& site_;
  std::size_t nodes_;
  const Before* before_;
  std::vector<Link> links_;
};

} // namespace rondo::training::onednn
