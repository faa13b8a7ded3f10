// Flattening: the same values with another shape. It copies only if the layout is not plain.
#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/layer.h"
#include "train/layers/onednn/op.h"

namespace rondo::training::onednn {

namespace {

class FlattenLayer : public Layer {
 public:
  explicit FlattenLayer(const Blueprint& from)
      : site_(from.site),
        in_(from.in),
        placed_(site_, in_, plain(dimsOf(in_.get_desc()), typeOf(in_.get_desc())),
                Lifetime::forward) {
    const Dims dims = dimsOf(in_.get_desc());
    Dims flat = {dims[0], 1};
    for (std::size_t i = 1; i < dims.size(); ++i) flat[1] *= dims[i];
    output_ = site_.view(plain(flat, typeOf(in_.get_desc())));
    output_.set_data_handle(placed_.tensor.get_data_handle());
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    if (!wanted) return {};
    // The same memory with other dimensions.
    const Converted flat(site_, gradient, output_.get_desc(), Lifetime::passing);
    flatten_back_ = flat.convert;
    back_ = site_.view(placed_.tensor.get_desc());
    back_.set_data_handle(flat.tensor.get_data_handle());
    return back_;
  }

  void forward(const Batch&, const Pass&) override {
    placed_.convert.run();
    // The input of a network has another address in every pass.
    output_.set_data_handle(placed_.tensor.get_data_handle());
  }

  void backward(const GradientReady&) override { flatten_back_.run(); }

 private:
  Site& site_;
  Tensor in_;
  Converted placed_;
  Op flatten_back_;
  Tensor back_;
};

} // namespace

std::unique_ptr<Layer> build(const Flatten&, const Blueprint& from) {
  return std::make_unique<FlattenLayer>(from);
}

} // namespace rondo::training::onednn
