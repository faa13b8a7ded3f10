// The loss after the last layer: softmax and cross-entropy with the labels, on the device.
#pragma once

#include "train/layers/cudnn/site.h"

namespace rondo::training::cudnn {

class SoftmaxCrossEntropy {
 public:
  /// in: [count x classes]
  SoftmaxCrossEntropy(Site& site, const Tensor& in);

  /// The gradient of the sum of the losses, set by the last score().
  const Tensor& gradient() const { return gradient_; }
  /// Waits for all work on the stream. Adds the losses in the order of the samples.
  Score score(const Batch& batch);

 private:
  Site& site_;
  Tensor in_, gradient_;
  OnDevice<std::uint8_t> labels_, correct_;
  OnDevice<double> losses_;
  Pinned<std::uint8_t> leaving_; ///< labels of the batch, in pinned memory
  Pinned<std::uint8_t> seen_correct_;
  Pinned<double> seen_losses_;
};

} // namespace rondo::training::cudnn
