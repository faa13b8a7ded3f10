// A layer built by oneDNN for batches of one size.
#pragma once

#include <memory>

#include "train/layers/node.h"
#include "train/layers/onednn/site.h"

namespace rondo::training::onednn {

/// Built with the tensor that comes in; for training, the way back is built behind that, from the
/// last layer to the first. Tensors are where they are from then on: passes only run. A layer
/// leaves what comes in, and the gradient that comes back, as they are.
class Layer {
 public:
  Layer() = default;
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  /// What it makes.
  const Tensor& output() const { return output_; }
  /// Given the gradient of its output; gives that of its input, or an empty tensor if that is not
  /// wanted.
  virtual Tensor buildBack(const Tensor& gradient, bool wanted) = 0;

  virtual void forward(const Batch& batch, const Pass& pass) = 0;
  virtual void backward(const GradientReady& ready) = 0;

 protected:
  Tensor output_;
};

/// What a layer is built from.
struct Blueprint {
  Site& site;
  const Node& node;
  Tensor in;
  bool relu; ///< followed by ReLU, which the layer does too
};

std::unique_ptr<Layer> build(const Linear& value, const Blueprint& from);
std::unique_ptr<Layer> build(const Relu& value, const Blueprint& from);
std::unique_ptr<Layer> build(const Flatten& value, const Blueprint& from);
std::unique_ptr<Layer> build(const Convolution& value, const Blueprint& from);
std::unique_ptr<Layer> build(const MaxPool& value, const Blueprint& from);
std::unique_ptr<Layer> build(const AveragePool& value, const Blueprint& from);
std::unique_ptr<Layer> build(const GlobalAveragePool& value, const Blueprint& from);
std::unique_ptr<Layer> build(const BatchNorm& value, const Blueprint& from);
std::unique_ptr<Layer> build(const Dropout& value, const Blueprint& from);
std::unique_ptr<Layer> build(const Residual& value, const Blueprint& from);

/// Layers that can do the ReLU behind them in the same go.
template <class Value>
inline constexpr bool kTakesRelu = false;
template <>
inline constexpr bool kTakesRelu<Linear> = true;
template <>
inline constexpr bool kTakesRelu<Convolution> = true;
template <>
inline constexpr bool kTakesRelu<BatchNorm> = true;
template <>
inline constexpr bool kTakesRelu<Residual> = true;

} // namespace rondo::training::onednn
