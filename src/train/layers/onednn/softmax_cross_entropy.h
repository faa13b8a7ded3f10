// The loss after the last layer: softmax and cross-entropy with the labels, on the CPU.
#pragma once

#include "train/layers/onednn/op.h"

namespace rondo::training::onednn {

/// Sums over the samples. Plain loops suffice, because there are only as many values as classes.
class SoftmaxCrossEntropy {
 public:
  /// in: [count x classes]
  SoftmaxCrossEntropy(Site& site, const Tensor& in);

  /// The gradient of the sum of the losses, set by the last loss() or score().
  const Tensor& gradient() const { return gradient_; }
  double loss(const Batch& batch);
  /// Loss, and number of samples that are classified correctly.
  Score score(const Batch& batch);

 private:
  Converted in_;
  Tensor gradient_;
  std::size_t classes_;
};

} // namespace rondo::training::onednn
