// The way back through ReLU, which other layers' way forward does along.
#pragma once

#include "train/layers/onednn/op.h"

namespace rondo::training::onednn {

/// Gives the gradient in front of the ReLU that made `output`: zero where that is zero.
class ReluBack {
 public:
  ReluBack() = default;
  /// The gradient keeps its layout if the output has the same, else it gets the output's.
  ReluBack(Site& site, const Tensor& output, const Tensor& gradient);

  const Tensor& gradient() const { return masked_; }
  void run() const;

 private:
  Op convert_, mask_;
  Tensor masked_;
};

dnnl::eltwise_forward::primitive_desc reluForward(Site& site, const Layout& layout);

} // namespace rondo::training::onednn
