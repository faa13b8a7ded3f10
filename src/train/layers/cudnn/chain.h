// Layers one behind the other.
#pragma once

#include <vector>

#include "train/layers/cudnn/layer.h"

namespace rondo::training::cudnn {

class Chain : public Layer {
 public:
  /// The nodes must live as long, and `before`. An empty chain gives what comes in. Errors name the
  /// layer, here and in passes.
  Chain(Site& site, const std::vector<Node>& nodes, const Tensor& in,
        const Before* before = nullptr);

  Tensor buildBack(const Tensor& gradient, bool wanted) override;
  void forward(const Batch& batch, const Pass& pass) override;
  void backward(const GradientReady& ready) override;

  /// The number of the first node whose output, of the last pass forward, is not finite; the number
  /// of nodes if there is none.
  std::size_t firstNotFinite() const;

 private:
  Site& site_;
  const std::vector<Node>& nodes_;
  const Before* before_;
  std::vector<std::unique_ptr<Layer>> layers_; ///< as many as nodes
  mutable OnDevice<std::uint8_t> found_;       ///< for each: something not finite
  mutable Pinned<std::uint8_t> seen_;
};

} // namespace rondo::training::cudnn
