// Flattening: the same memory with another shape, because all layouts are plain.
#include "train/layers/cudnn/layer.h"

namespace rondo::training::cudnn {

namespace {

class FlattenLayer : public Layer {
 public:
  explicit FlattenLayer(const Blueprint& from) : in_(from.in) {
    output_ = {in_.data, from.node.out};
  }
  Tensor buildBack(const Tensor& gradient, bool) override { return {gradient.data, in_.shape}; }
  void forward(const Batch&, const Pass&) override {}
  void backward(const GradientReady&) override {}

 private:
  Tensor in_;
};

} // namespace

std::unique_ptr<Layer> build(const Flatten&, const Blueprint& from) {
  return std::make_unique<FlattenLayer>(from);
}

} // namespace rondo::training::cudnn
