// The backward pass of a ReLU that another layer computed in its forward pass.
#pragma once

#include "train/layers/onednn/op.h"

namespace rondo::training::onednn {

/// Computes the gradient of the input of the ReLU that made `output`: zero where the output is
/// zero.
class ReluBack {
 public:
  ReluBack() = default;
  /// The result has the layout of the output; `gradient` is converted if it has another one.
  ReluBack(Site& site, const Tensor& output, const Tensor& gradient);

  const Tensor& gradient() const { return masked_; }
  void run() const;

 private:
  Op convert_, mask_;
  Tensor masked_;
};

dnnl::eltwise_forward::primitive_desc reluForward(Site& site, const Layout& layout);

} // namespace rondo::training::onednn
