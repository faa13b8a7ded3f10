// Max and average pooling by cuDNN.
#include "train/layers/cudnn/layer.h"

namespace rondo::training::cudnn {

namespace {

constexpr float kOne = 1, kZero = 0;

class PoolLayer : public Layer {
 public:
  struct Windows {
    std::size_t height, width, stride, padding;
  };

  PoolLayer(cudnnPoolingMode_t mode, const Windows& windows, const Blueprint& from)
      : site_(from.site),
        in_(from.in),
        in_as_(site_.description(from.node.in, site_.binding().count)),
        out_as_(site_.description(from.node.out, site_.binding().count)),
        pooling_(made<Pooling>(cudnnCreatePoolingDescriptor, "cudnnCreatePoolingDescriptor")) {
    output_ = site_.tensor(from.node.out);
    const int stride = dim(windows.stride), padding = dim(windows.padding);
    check(
        cudnnSetPooling2dDescriptor(pooling_.get(), mode, CUDNN_PROPAGATE_NAN, dim(windows.height),
                                    dim(windows.width), padding, padding, stride, stride),
        "cudnnSetPooling2dDescriptor");
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    gradient_ = gradient;
    if (wanted) back_ = site_.tensor(in_.shape);
    return back_;
  }

  void forward(const Batch&, const Pass&) override {
    check(cudnnPoolingForward(site_.dnn(), pooling_.get(), &kOne, in_as_.get(), in_.data, &kZero,
                              out_as_.get(), output_.data),
          "cudnnPoolingForward");
  }

  void backward(const GradientReady&) override {
    if (!back_) return;
    check(cudnnPoolingBackward(site_.dnn(), pooling_.get(), &kOne, out_as_.get(), output_.data,
                               out_as_.get(), gradient_.data, in_as_.get(), in_.data, &kZero,
                               in_as_.get(), back_.data),
          "cudnnPoolingBackward");
  }

 private:
  Site& site_;
  Tensor in_;
  Description in_as_, out_as_;
  Pooling pooling_;
  Tensor gradient_, back_;
};

std::unique_ptr<Layer> buildPool(cudnnPoolingMode_t mode, const Window& window,
                                 const Blueprint& from) {
  return std::make_unique<PoolLayer>(
      mode, PoolLayer::Windows{window.kernel, window.kernel, window.stride, window.padding}, from);
}

} // namespace

std::unique_ptr<Layer> build(const MaxPool& value, const Blueprint& from) {
  // If windows overlap, CUDNN_POOLING_MAX adds gradients in an undefined order.
  return buildPool(CUDNN_POOLING_MAX_DETERMINISTIC, value.window, from);
}

std::unique_ptr<Layer> build(const AveragePool& value, const Blueprint& from) {
  return buildPool(CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, value.window, from);
}

std::unique_ptr<Layer> build(const GlobalAveragePool&, const Blueprint& from) {
  const SampleShape& in = from.node.in;
  return std::make_unique<PoolLayer>(
      CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
      PoolLayer::Windows{.height = in.height, .width = in.width, .stride = 1, .padding = 0}, from);
}

} // namespace rondo::training::cudnn
