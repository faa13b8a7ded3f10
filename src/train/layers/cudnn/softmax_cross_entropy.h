// The loss behind the last layer: softmax, then cross-entropy with the labels.
#pragma once

#include "train/layers/cudnn/site.h"

namespace rondo::training::cudnn {

class SoftmaxCrossEntropy {
 public:
  /// in: [count x classes]
  SoftmaxCrossEntropy(Site& site, const Tensor& in);

  /// Of the sum of losses, by the last call of score().
  const Tensor& gradient() const { return gradient_; }
  /// Waits for all that is on the stream. Sums in the samples' order.
  Score score(const Batch& batch);

 private:
  Site& site_;
  Tensor in_, gradient_;
  OnDevice<std::uint8_t> labels_, correct_;
  OnDevice<double> losses_;
  Pinned<std::uint8_t> leaving_; ///< the batch's labels
  Pinned<std::uint8_t> seen_correct_;
  Pinned<double> seen_losses_;
};

} // namespace rondo::training::cudnn
