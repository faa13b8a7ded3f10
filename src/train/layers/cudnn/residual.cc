// Residual by cuDNN: adds two chains with the same input.
#include "train/layers/cudnn/chain.h"

namespace rondo::training::cudnn {

namespace {

constexpr float kOne = 1, kZero = 0;

class ResidualLayer : public Layer {
 public:
  explicit ResidualLayer(const Blueprint& from)
      : site_(from.site),
        in_(from.in),
        body_(site_, from.node.body, from.in),
        shortcut_(site_, from.node.shortcut, from.in),
        in_as_(site_.description(from.node.in, site_.binding().count)),
        out_as_(site_.description(from.node.out, site_.binding().count)),
        addition_(made<Addition>(cudnnCreateOpTensorDescriptor, "cudnnCreateOpTensorDescriptor")) {
    output_ = site_.tensor(from.node.out);
    check(cudnnSetOpTensorDescriptor(addition_.get(), CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT,
                                     CUDNN_PROPAGATE_NAN),
          "cudnnSetOpTensorDescriptor");
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    from_shortcut_ = shortcut_.buildBack(gradient, wanted);
    from_body_ = body_.buildBack(gradient, wanted);
    if (wanted) back_ = site_.tensor(in_.shape);
    return back_;
  }

  void forward(const Batch& batch, const Pass& pass) override {
    body_.forward(batch, pass);
    shortcut_.forward(batch, pass);
    add(body_.output(), shortcut_.output(), out_as_, output_);
  }

  void backward(const GradientReady& ready) override {
    shortcut_.backward(ready);
    body_.backward(ready);
    if (back_) add(from_body_, from_shortcut_, in_as_, back_);
  }

 private:
  void add(const Tensor& a, const Tensor& b, const Description& as, const Tensor& to) const {
    check(cudnnOpTensor(site_.dnn(), addition_.get(), &kOne, as.get(), a.data, &kOne, as.get(),
                        b.data, &kZero, as.get(), to.data),
          "cudnnOpTensor");
  }

  Site& site_;
  Tensor in_;
  Chain body_, shortcut_;
  Description in_as_, out_as_;
  Addition addition_;
  Tensor from_body_, from_shortcut_, back_;
};

} // namespace

std::unique_ptr<Layer> build(const Residual&, const Blueprint& from) {
  return std::make_unique<ResidualLayer>(from);
}

} // namespace rondo::training::cudnn
