// Layers one behind the other.
#pragma once

#include <vector>

#include "train/layers/cudnn/layer.h"

namespace rondo::training::cudnn {

class Chain {
 public:
  /// The nodes must live as long. Throws Error(unsupported), which names the layer, for one that
  /// this backend has not.
  Chain(Site& site, const std::vector<Node>& nodes, const Tensor& in);

  const Tensor& output() const { return output_; }
  Tensor buildBack(const Tensor& gradient, bool wanted);
  /// Errors name the layer.
  void forward(const Batch& batch, const Pass& pass);
  void backward(const Ready& ready);

  /// The number of the first node whose output, of the last pass forward, is not finite; the number
  /// of nodes if there is none.
  std::size_t firstNotFinite() const;

 private:
  Site& site_;
  const std::vector<Node>& nodes_;
  Tensor output_;
  std::vector<std::unique_ptr<Layer>> layers_; ///< as many as nodes
};

} // namespace rondo::training::cudnn
