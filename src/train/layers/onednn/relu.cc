// ReLU as a layer of its own, and the backward pass of a fused ReLU.
#include "train/layers/onednn/relu.h"

#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/layer.h"

namespace rondo::training::onednn {

dnnl::eltwise_forward::primitive_desc reluForward(Site& site, const Layout& layout) {
  return describe<dnnl::eltwise_forward>(
      {site.engine(), attributes()}, dnnl::prop_kind::forward_training,
      dnnl::algorithm::eltwise_relu, layout, since3(layout), 0.0F);
}

ReluBack::ReluBack(Site& site, const Tensor& output, const Tensor& gradient) {
  const Layout layout = output.get_desc();
  const Converted given(site, gradient, layout, Lifetime::passing);
  convert_ = given.convert;
  masked_ = site.tensor(layout, Lifetime::passing);
  constexpr auto kAlgorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const auto forward =
      describe<dnnl::eltwise_forward>({site.engine(), {}}, dnnl::prop_kind::forward_training,
                                      kAlgorithm, layout, since3(layout), 0.0F);
  const auto description = describeBack<dnnl::eltwise_backward>(
      {site.engine(), attributes()}, forward, kAlgorithm, layout, since3(layout), layout, 0.0F);
  mask_ = Op::of<dnnl::eltwise_backward>(
      site, description,
      {{DNNL_ARG_DST, output}, {DNNL_ARG_DIFF_DST, given.tensor}, {DNNL_ARG_DIFF_SRC, masked_}});
}

void ReluBack::run() const {
  convert_.run();
  mask_.run();
}

namespace {

class ReluLayer : public Layer {
 public:
  explicit ReluLayer(const Blueprint& from) : site_(from.site) {
    const Layout layout = from.in.get_desc();
    output_ = site_.tensor(layout, Lifetime::forward);
    forward_ = Op::of<dnnl::eltwise_forward>(site_, reluForward(site_, layout),
                                             {{DNNL_ARG_SRC, from.in}, {DNNL_ARG_DST, output_}});
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    if (!wanted) return {};
    back_ = ReluBack(site_, output_, gradient);
    return back_.gradient();
  }

  void forward(const Batch&, const Pass&) override { forward_.run(); }
  void backward(const GradientReady&) override { back_.run(); }

 private:
  Site& site_;
  Op forward_;
  ReluBack back_;
};

} // namespace

std::unique_ptr<Layer> build(const Relu&, const Blueprint& from) {
  return std::make_unique<ReluLayer>(from);
}

} // namespace rondo::training::onednn
