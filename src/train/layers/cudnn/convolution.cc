// Convolutions by cuDNN, with bias, in plain layouts.
#include <optional>

#include "train/layers/cudnn/layer.h"
#include "train/layers/cudnn/weights.h"

namespace rondo::training::cudnn {

namespace {

constexpr float kOne = 1, kZero = 0;

// One fixed algorithm for every shape. Each supports all shapes and is documented as deterministic,
// unlike BWD_DATA_ALGO_0 and BWD_FILTER_ALGO_0. The fastest algorithm by measurement, or by the
// heuristics of a library version, would make results differ between runs.
constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto kBackData = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto kBackFilter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

class ConvolutionLayer : public Layer {
 public:
  ConvolutionLayer(const Convolution& value, const Blueprint& from)
      : site_(from.site),
        node_(from.node),
        in_(from.in),
        weight_(site_, *node_.weights[0]),
        in_as_(site_.description(node_.in, site_.binding().count)),
        out_as_(site_.description(node_.out, site_.binding().count)),
        bias_as_(site_.description({node_.out.channels, 1, 1}, 1)),
        filter_(made<Filter>(cudnnCreateFilterDescriptor, "cudnnCreateFilterDescriptor")),
        moved_(made<Correlation>(cudnnCreateConvolutionDescriptor,
                                 "cudnnCreateConvolutionDescriptor")) {
    describe(value.window);
    output_ = site_.tensor(node_.out);
    if (value.bias) bias_.emplace(site_, *node_.weights[1]);
    std::size_t bytes = 0;
    check(cudnnGetConvolutionForwardWorkspaceSize(site_.dnn(), in_as_.get(), filter_.get(),
                                                  moved_.get(), out_as_.get(), kForward, &bytes),
          "cudnnGetConvolutionForwardWorkspaceSize");
    site_.reserve(bytes);
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    gradient_ = gradient;
    made_weight_.emplace(site_, *node_.weights[0]);
    if (bias_) made_bias_.emplace(site_, *node_.weights[1]);
    std::size_t bytes = 0;
    check(cudnnGetConvolutionBackwardFilterWorkspaceSize(site_.dnn(), in_as_.get(), out_as_.get(),
                                                         moved_.get(), filter_.get(), kBackFilter,
                                                         &bytes),
          "cudnnGetConvolutionBackwardFilterWorkspaceSize");
    site_.reserve(bytes);
    if (!wanted) return {};
    check(
        cudnnGetConvolutionBackwardDataWorkspaceSize(site_.dnn(), filter_.get(), out_as_.get(),
                                                     moved_.get(), in_as_.get(), kBackData, &bytes),
        "cudnnGetConvolutionBackwardDataWorkspaceSize");
    site_.reserve(bytes);
    return back_ = site_.tensor(in_.shape);
  }

  void forward(const Batch&, const Pass&) override {
    weight_.refresh();
    check(cudnnConvolutionForward(site_.dnn(), &kOne, in_as_.get(), in_.data, filter_.get(),
                                  weight_.data(), moved_.get(), kForward, site_.workspace(),
                                  site_.workspaceBytes(), &kZero, out_as_.get(), output_.data),
          "cudnnConvolutionForward");
    if (!bias_) return;
    bias_->refresh();
    check(cudnnAddTensor(site_.dnn(), &kOne, bias_as_.get(), bias_->data(), &kOne, out_as_.get(),
                         output_.data),
          "cudnnAddTensor");
  }

  void backward(const GradientReady&) override {
    check(cudnnConvolutionBackwardFilter(site_.dnn(), &kOne, in_as_.get(), in_.data, out_as_.get(),
                                         gradient_.data, moved_.get(), kBackFilter,
                                         site_.workspace(), site_.workspaceBytes(), &kZero,
                                         filter_.get(), made_weight_->data()),
          "cudnnConvolutionBackwardFilter");
    made_weight_->depart();
    if (made_bias_) {
      check(cudnnConvolutionBackwardBias(site_.dnn(), &kOne, out_as_.get(), gradient_.data, &kZero,
                                         bias_as_.get(), made_bias_->data()),
            "cudnnConvolutionBackwardBias");
      made_bias_->depart();
    }
    if (!back_) return;
    weight_.refresh();
    check(cudnnConvolutionBackwardData(site_.dnn(), &kOne, filter_.get(), weight_.data(),
                                       out_as_.get(), gradient_.data, moved_.get(), kBackData,
                                       site_.workspace(), site_.workspaceBytes(), &kZero,
                                       in_as_.get(), back_.data),
          "cudnnConvolutionBackwardData");
  }

 private:
  void describe(const Window& window) const {
    const int kernel = dim(window.kernel), stride = dim(window.stride),
              padding = dim(window.padding);
    check(
        cudnnSetFilter4dDescriptor(filter_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                   dim(node_.out.channels), dim(node_.in.channels), kernel, kernel),
        "cudnnSetFilter4dDescriptor");
    // cuDNN calls this a cross-correlation: the filter is not flipped.
    check(cudnnSetConvolution2dDescriptor(moved_.get(), padding, padding, stride, stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    // Multiplies in full float32, not in TF32 with its 10 bits of mantissa.
    check(cudnnSetConvolutionMathType(moved_.get(), CUDNN_FMA_MATH), "cudnnSetConvolutionMathType");
  }

  Site& site_;
  const Node& node_;
  Tensor in_;
  Upload weight_;
  std::optional<Upload> bias_;
  Description in_as_, out_as_, bias_as_;
  Filter filter_;
  Correlation moved_; ///< stride and padding of the filter
  std::optional<Delivery> made_weight_, made_bias_;
  Tensor gradient_, back_;
};

} // namespace

std::unique_ptr<Layer> build(const Convolution& value, const Blueprint& from) {
  return std::make_unique<ConvolutionLayer>(value, from);
}

} // namespace rondo::training::cudnn
