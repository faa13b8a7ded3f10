// ReLU by cuDNN; NaN stays NaN.
#include "train/layers/cudnn/layer.h"

namespace rondo::training::cudnn {

namespace {

constexpr float kOne = 1, kZero = 0;

class ReluLayer : public Layer {
 public:
  explicit ReluLayer(const Blueprint& from)
      : site_(from.site),
        in_(from.in),
        described_(site_.description(from.in.shape, site_.binding().count)),
        relu_(
            made<Activation>(cudnnCreateActivationDescriptor, "cudnnCreateActivationDescriptor")) {
    output_ = site_.tensor(in_.shape);
    check(cudnnSetActivationDescriptor(relu_.get(), CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0),
          "cudnnSetActivationDescriptor");
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    gradient_ = gradient;
    if (wanted) back_ = site_.tensor(in_.shape);
    return back_;
  }

  void forward(const Batch&, const Pass&) override {
    check(cudnnActivationForward(site_.dnn(), relu_.get(), &kOne, described_.get(), in_.data,
                                 &kZero, described_.get(), output_.data),
          "cudnnActivationForward");
  }

  void backward(const GradientReady&) override {
    if (!back_) return;
    check(cudnnActivationBackward(site_.dnn(), relu_.get(), &kOne, described_.get(), output_.data,
                                  described_.get(), gradient_.data, described_.get(), in_.data,
                                  &kZero, described_.get(), back_.data),
          "cudnnActivationBackward");
  }

 private:
  Site& site_;
  Tensor in_;
  Description described_;
  Activation relu_;
  Tensor gradient_, back_;
};

} // namespace

std::unique_ptr<Layer> build(const Relu&, const Blueprint& from) {
  return std::make_unique<ReluLayer>(from);
}

} // namespace rondo::training::cudnn
