// Linear layers by oneDNN: inner products with bias and the ReLU after them.
#include <optional>

#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/layer.h"
#include "train/layers/onednn/relu.h"
#include "train/layers/onednn/weights.h"

namespace rondo::training::onednn {

namespace {

using Forward = dnnl::inner_product_forward;
using BackData = dnnl::inner_product_backward_data;
using BackWeights = dnnl::inner_product_backward_weights;

/// Float32 weights stay in their plain layout: a packed copy saves 0.03 ms of a pass of 0.3 ms
/// (mlp, 64 samples), but packing once per step costs as much. bfloat16 weights are copies anyway.
/// The output and its gradient are float32, because the loss needs float32 from the last layer.
class LinearLayer : public Layer {
 public:
  explicit LinearLayer(const Blueprint& from)
      : site_(from.site),
        weight_(*from.node.weights[0]),
        bias_(*from.node.weights[1]),
        relu_(from.relu) {
    const auto out = static_cast<dnnl::memory::dim>(from.node.out.channels);
    const Dims in = dimsOf(from.in.get_desc());
    const Converted source(site_, from.in, plain(in, site_.multiplied()), Lifetime::forward);
    convert_in_ = source.convert;
    in_ = source.tensor;
    weight_layout_ = plain({out, in[1]});
    bias_layout_ = plain({out});
    const bool training = site_.binding().training;
    forward_description_ = describe<Forward>(
        {site_.engine(), attributes(relu_)},
        training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
        in_.get_desc(), weightLayout(site_.multiplied()), bias_layout_, plain({in[0], out}));
    output_ = site_.tensor(forward_description_.dst_desc(), Lifetime::forward);
    packed_weight_.emplace(site_, weight_, weight_layout_, forward_description_.weights_desc());
    packed_bias_.emplace(site_, bias_, bias_layout_, bias_layout_);
    forward_ = Op::of<Forward>(site_, forward_description_,
                               {{DNNL_ARG_SRC, in_},
                                {DNNL_ARG_WEIGHTS, packed_weight_->tensor()},
                                {DNNL_ARG_BIAS, packed_bias_->tensor()},
                                {DNNL_ARG_DST, output_}});
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    Tensor output_gradient = gradient;
    if (relu_) {
      relu_back_ = ReluBack(site_, output_, gradient);
      output_gradient = relu_back_.gradient();
    }
    const Converted given(site_, output_gradient,
                          plain(dimsOf(output_gradient.get_desc()), site_.multiplied()),
                          Lifetime::passing);
    convert_gradient_ = given.convert;
    buildWeights(given.tensor);
    return wanted ? buildData(given.tensor) : Tensor();
  }

  void forward(const Batch&, const Pass&) override {
    convert_in_.run();
    packed_weight_->refresh();
    packed_bias_->refresh();
    forward_.run();
  }

  void backward(const GradientReady& ready) override {
    relu_back_.run();
    convert_gradient_.run();
    made_weight_->aim();
    made_bias_->aim();
    back_weights_.run();
    made_weight_->deliver();
    ready(weight_.number);
    ready(bias_.number);
    if (data_weight_) data_weight_->refresh();
    back_data_.run();
  }

 private:
  /// The layout of the weights or their gradient in the primitive: plain for float32, otherwise the
  /// one that oneDNN prefers, because a copy is made anyway.
  Layout weightLayout(Type type) const {
    return site_.multiplied() == Type::f32 ? weight_layout_ : any(dimsOf(weight_layout_), type);
  }

  void buildWeights(const Tensor& gradient) {
    const auto description = describeBack<BackWeights>(
        {site_.engine(), attributes()}, forward_description_, in_.get_desc(),
        weightLayout(Type::f32), bias_layout_, gradient.get_desc());
    made_weight_.emplace(site_, weight_, weight_layout_, description.diff_weights_desc());
    made_bias_.emplace(site_, bias_, bias_layout_, bias_layout_);
    back_weights_ = Op::of<BackWeights>(site_, description,
                                        {{DNNL_ARG_SRC, in_},
                                         {DNNL_ARG_DIFF_DST, gradient},
                                         {DNNL_ARG_DIFF_WEIGHTS, made_weight_->tensor()},
                                         {DNNL_ARG_DIFF_BIAS, made_bias_->tensor()}});
  }

  Tensor buildData(const Tensor& gradient) {
    const auto description = describeBack<BackData>(
        {site_.engine(), attributes()}, forward_description_, plain(dimsOf(in_.get_desc())),
        weightLayout(site_.multiplied()), gradient.get_desc());
    data_weight_.emplace(site_, weight_, weight_layout_, description.weights_desc());
    Tensor result = site_.tensor(description.diff_src_desc(), Lifetime::passing);
    back_data_ = Op::of<BackData>(site_, description,
                                  {{DNNL_ARG_DIFF_DST, gradient},
                                   {DNNL_ARG_WEIGHTS, data_weight_->tensor()},
                                   {DNNL_ARG_DIFF_SRC, result}});
    return result;
  }

  Site& site_;
  const Weight &weight_, &bias_;
  bool relu_;
  Tensor in_;
  Layout weight_layout_, bias_layout_;
  Forward::primitive_desc forward_description_;
  std::optional<Packed> packed_weight_, packed_bias_, data_weight_;
  std::optional<Unpacked> made_weight_, made_bias_;
  Op convert_in_, forward_, convert_gradient_, back_weights_, back_data_;
  ReluBack relu_back_;
};

} // namespace

std::unique_ptr<Layer> build(const Linear&, const Blueprint& from) {
  return std::make_unique<LinearLayer>(from);
}

} // namespace rondo::training::onednn
