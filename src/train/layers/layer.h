// Interface of a layer that a backend builds for batches of one size.
#pragma once

#include "train/layers/program.h"

namespace rondo::training {

/// The constructor gets the input tensor. For training, the backward passes are built after all
/// constructors, from the last layer to the first. Tensors do not move after that. A layer does not
/// modify its input or the gradient that it gets.
template <class Tensor>
class LayerOn {
 public:
  LayerOn() = default;
  virtual ~LayerOn() = default;
  LayerOn(const LayerOn&) = delete;
  LayerOn& operator=(const LayerOn&) = delete;

  /// The output tensor.
  const Tensor& output() const { return output_; }
  /// Gets the gradient of the output. Returns the gradient of the input, or an empty tensor if
  /// `wanted` is false.
  virtual Tensor buildBack(const Tensor& gradient, bool wanted) = 0;

  virtual void forward(const Batch& batch, const Pass& pass) = 0;
  virtual void backward(const GradientReady& ready) = 0;

 protected:
  Tensor output_;
};

} // namespace rondo::training
