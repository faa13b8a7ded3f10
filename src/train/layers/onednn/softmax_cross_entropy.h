// The loss behind the last layer: softmax, then cross-entropy with the labels.
#pragma once

#include "train/layers/onednn/op.h"

namespace rondo::training::onednn {

/// Sums over the samples; plain loops, since there are as few values as classes.
class SoftmaxCrossEntropy {
 public:
  /// in: [count x classes]
  SoftmaxCrossEntropy(Site& site, const Tensor& in);

  /// Of the sum of losses, by the last call of loss().
  const Tensor& gradient() const { return gradient_; }
  double loss(const Batch& batch);
  /// Without a gradient.
  Score score(const Batch& batch);

 private:
  Converted in_;
  Tensor gradient_;
  std::size_t classes_;
};

} // namespace rondo::training::onednn
