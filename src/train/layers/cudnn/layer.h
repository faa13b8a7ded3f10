// Interface of a layer that is built on a device for batches of one size.
#pragma once

#include <memory>

#include "train/layers/cudnn/site.h"
#include "train/layers/node.h"

namespace rondo::training::cudnn {

/// The constructor gets the input tensor. For training, the backward passes are built after all
/// constructors, from the last layer to the first. A pass only queues work on the site's stream,
/// except batch norm over ranks, which waits. A layer does not modify its input or the gradient
/// that it gets.
class Layer {
 public:
  Layer() = default;
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  /// The output tensor.
  const Tensor& output() const { return output_; }
  /// Gets the gradient of the output. Returns the gradient of the input, or an empty tensor if
  /// `wanted` is false.
  virtual Tensor buildBack(const Tensor& gradient, bool wanted) = 0;

  virtual void forward(const Batch& batch, const Pass& pass) = 0;
  /// Starts to copy gradients of weights to the host. A layer that waits for the stream also calls
  /// `ready` for all gradients that have arrived.
  virtual void backward(const GradientReady& ready) = 0;

 protected:
  Tensor output_;
};

/// The arguments of a layer's constructor.
struct Blueprint {
  Site& site;
  const Node& node;
  Tensor in;
};

// build() of each layer
#define LAYER(Type, name) std::unique_ptr<Layer> build(const Type& value, const Blueprint& from);
#include "train/layers/layers.def"
#undef LAYER

} // namespace rondo::training::cudnn
