// Max and average pooling by oneDNN, in the layout of the input.
#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/layer.h"
#include "train/layers/onednn/op.h"
#include "train/layers/onednn/relu.h"

namespace rondo::training::onednn {

namespace {

using Forward = dnnl::pooling_forward;
using Back = dnnl::pooling_backward;

/// The kind and the window of a pooling.
struct Pooling {
  dnnl::algorithm algorithm;
  Dims kernel, strides, padding;
};

class PoolLayer : public Layer {
 public:
  PoolLayer(Pooling pooling, const Blueprint& from)
      : site_(from.site),
        pooling_(std::move(pooling)),
        relu_before_(from.pooled_relu),
        in_(from.in) {
    const auto dim = [](std::size_t size) { return static_cast<dnnl::memory::dim>(size); };
    const SampleShape& out = from.node.out;
    out_dims_ = {dim(site_.binding().count), dim(out.channels), dim(out.height), dim(out.width)};
    const auto kind = site_.binding().training ? dnnl::prop_kind::forward_training
                                               : dnnl::prop_kind::forward_inference;
    const Layout layout = in_.get_desc();
    description_ =
        describe<Forward>({site_.engine(), attributes()}, kind, pooling_.algorithm, layout,
                          any(out_dims_, typeOf(layout)), pooling_.strides, pooling_.kernel,
                          since3(Dims{0, 0}), pooling_.padding, pooling_.padding);
    output_ = site_.tensor(description_.dst_desc(), Lifetime::forward);
    Arguments arguments = {{DNNL_ARG_SRC, in_}, {DNNL_ARG_DST, output_}};
    if (description_.workspace_desc().get_size() > 0) {
      choices_ = site_.tensor(description_.workspace_desc(), Lifetime::forward);
      arguments.emplace_back(DNNL_ARG_WORKSPACE, choices_);
    }
    forward_ = Op::of<Forward>(site_, description_, std::move(arguments));
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    if (!wanted) return {};
    const auto description =
        describeBack<Back>({site_.engine(), attributes()}, description_, pooling_.algorithm,
                           in_.get_desc(), output_.get_desc(), pooling_.strides, pooling_.kernel,
                           since3(Dims{0, 0}), pooling_.padding, pooling_.padding);
    const Tensor output_gradient = buildGradient(gradient);
    Tensor result = site_.tensor(in_.get_desc(), Lifetime::passing);
    Arguments arguments = {{DNNL_ARG_DIFF_DST, output_gradient}, {DNNL_ARG_DIFF_SRC, result}};
    if (choices_) arguments.emplace_back(DNNL_ARG_WORKSPACE, choices_);
    back_ = Op::of<Back>(site_, description, std::move(arguments));
    return result;
  }

  void forward(const Batch&, const Pass&) override { forward_.run(); }
  void backward(const GradientReady&) override {
    convert_.run();
    relu_back_.run();
    back_.run();
  }

 private:
  /// Returns the gradient in the layout of the output.
  Tensor buildGradient(const Tensor& gradient) {
    if (relu_before_) {
      relu_back_ = ReluBack(site_, output_, gradient);
      return relu_back_.gradient();
    }
    const Converted given(site_, gradient, output_.get_desc(), Lifetime::passing);
    convert_ = given.convert;
    return given.tensor;
  }

  Site& site_;
  Pooling pooling_;
  bool relu_before_;
  Tensor in_, choices_; ///< choices_: which value of each window was the maximum
  Dims out_dims_;
  Forward::primitive_desc description_;
  Op forward_, convert_, back_;
  ReluBack relu_back_;
};

std::unique_ptr<Layer> buildPool(dnnl::algorithm algorithm, const Window& window,
                                 const Blueprint& from) {
  const auto both = [](std::size_t size) { return Dims(2, static_cast<dnnl::memory::dim>(size)); };
  return std::make_unique<PoolLayer>(
      Pooling{algorithm, both(window.kernel), both(window.stride), both(window.padding)}, from);
}

} // namespace

std::unique_ptr<Layer> build(const MaxPool& value, const Blueprint& from) {
  return buildPool(dnnl::algorithm::pooling_max, value.window, from);
}

std::unique_ptr<Layer> build(const AveragePool& value, const Blueprint& from) {
  return buildPool(dnnl::algorithm::pooling_avg_include_padding, value.window, from);
}

std::unique_ptr<Layer> build(const GlobalAveragePool&, const Blueprint& from) {
  const auto dim = [](std::size_t size) { return static_cast<dnnl::memory::dim>(size); };
  const Dims whole = {dim(from.node.in.height), dim(from.node.in.width)};
  return std::make_unique<PoolLayer>(
      Pooling{dnnl::algorithm::pooling_avg_include_padding, whole, whole, {0, 0}}, from);
}

} // namespace rondo::training::onednn
