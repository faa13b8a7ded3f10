// Layers one behind the other.
#pragma once

#include <vector>

#include "train/layers/onednn/layer.h"

namespace rondo::training::onednn {

class Chain : public Layer {
 public:
  /// The nodes must live as long, and `before`. An empty chain gives what comes in.
  Chain(Site& site, const std::vector<Node>& nodes, const Tensor& in,
        const Before* before = nullptr);

  Tensor buildBack(const Tensor& gradient, bool wanted) override;
  void forward(const Batch& batch, const Pass& pass) override;
  void backward(const GradientReady& ready) override;

  /// The number of the first node whose output, of the last pass forward, is not finite; the number
  /// of nodes if there is none.
  std::size_t firstNotFinite() const;

 private:
  struct Link {
    std::unique_ptr<Layer> layer;
    bool behind_learners; ///< some layer before it needs a gradient
    std::size_t node;     ///< the number of its own
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
