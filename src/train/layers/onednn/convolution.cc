// Convolutions by oneDNN, with bias and the ReLU after them, in the layouts that oneDNN prefers.
#include <optional>

#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/kernel_rows.h"
#include "train/layers/onednn/layer.h"
#include "train/layers/onednn/relu.h"
#include "train/layers/onednn/weights.h"

namespace rondo::training::onednn {

namespace {

using Forward = dnnl::convolution_forward;
using BackData = dnnl::convolution_backward_data;
using BackWeights = dnnl::convolution_backward_weights;

/// With fewer input channels the direct algorithm is faster than Winograd. 64 samples of 64 -> 64
/// channels on 32 x 32: Winograd 21 ms, direct 42; 32 -> 64 on 14 x 14: 3.0 and 3.9; but 3 -> 64 on
/// 32 x 32: 10.3 and 2.3 (one core of an EPYC 9004).
constexpr std::size_t kFewChannels = 16;

/// Returns the description that make(algorithm, may_fail) gives: Winograd if it is wanted and
/// supported, else direct. oneDNN 3 has no Winograd on x86.
template <class Make>
auto preferred(bool winograd, const Make& make) {
  if (winograd)
    if (auto description = make(dnnl::algorithm::convolution_winograd, true)) return description;
  return make(dnnl::algorithm::convolution_direct, false);
}

class ConvolutionLayer : public Layer {
 public:
  ConvolutionLayer(const Convolution& value, const Blueprint& from)
      : site_(from.site),
        node_(from.node),
        winograd_(node_.in.channels >= kFewChannels),
        relu_(from.relu),
        relu_back_here_(from.relu && !from.pooled_relu),
        with_bias_(value.bias) {
    const auto dim = [](std::size_t size) { return static_cast<dnnl::memory::dim>(size); };
    const SampleShape &in = node_.in, &out = node_.out;
    const Window& window = value.window;
    const auto count = dim(site_.binding().count);
    sizes_ = {
        .in = {count, dim(in.channels), dim(in.height), dim(in.width)},
        .filter = {dim(value.channels), dim(in.channels), dim(window.kernel), dim(window.kernel)},
        .out = {count, dim(out.channels), dim(out.height), dim(out.width)},
        .strides = {dim(window.stride), dim(window.stride)},
        .padding = {dim(window.padding), dim(window.padding)}};
    buildForward(from.in);
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    Tensor output_gradient = gradient;
    if (relu_back_here_) {
      relu_back_ = ReluBack(site_, output_, gradient);
      output_gradient = relu_back_.gradient();
    }
    output_gradient = buildWeights(output_gradient);
    return wanted ? buildData(output_gradient) : Tensor();
  }

  void forward(const Batch&, const Pass&) override {
    convert_in_.run();
    packed_->refresh();
    if (bias_) bias_->refresh();
    forward_.run();
  }

  void backward(const GradientReady& ready) override {
    relu_back_.run();
    convert_gradient_.run();
    if (rows_) copyRows(numbers(in_), sizes_, numbers(rows_));
    convert_source_.run();
    made_->aim();
    if (made_bias_) made_bias_->aim();
    back_weights_.run();
    made_->deliver();
    for (const Weight* weight : node_.weights) ready(weight->number);
    if (!data_packed_) return;
    convert_data_gradient_.run();
    data_packed_->refresh();
    back_data_.run();
  }

 private:
  static float* numbers(const Tensor& tensor) {
    return static_cast<float*>(tensor.get_data_handle());
  }

  Layout biasLayout() const { return plain({sizes_.filter[0]}); }
  Layout like(const Dims& dims) const { return any(dims, site_.multiplied()); }

  Forward::primitive_desc describeForward(const ConvolutionSizes& sizes) const {
    const auto kind = site_.binding().training ? dnnl::prop_kind::forward_training
                                               : dnnl::prop_kind::forward_inference;
    const Layout in = like(sizes.in), filter = like(sizes.filter), out = like(sizes.out);
    return preferred(winograd_, [&](dnnl::algorithm algorithm, bool may_fail) {
      const Setting setting{site_.engine(), attributes(relu_), may_fail};
      return with_bias_ ? describe<Forward>(setting, kind, algorithm, in, filter, biasLayout(), out,
                                            sizes.strides, sizes.padding, sizes.padding)
                        : describe<Forward>(setting, kind, algorithm, in, filter, out,
                                            sizes.strides, sizes.padding, sizes.padding);
    });
  }

  BackWeights::primitive_desc describeWeights(const ConvolutionSizes& sizes,
                                              const Forward::primitive_desc& forward) const {
    const Layout in = like(sizes.in), filter = any(sizes.filter), out = like(sizes.out);
    return preferred(winograd_, [&](dnnl::algorithm algorithm, bool may_fail) {
      const Setting setting{site_.engine(), attributes(), may_fail};
      return with_bias_
                 ? describeBack<BackWeights>(setting, forward, algorithm, in, filter, biasLayout(),
                                             out, sizes.strides, sizes.padding, sizes.padding)
                 : describeBack<BackWeights>(setting, forward, algorithm, in, filter, out,
                                             sizes.strides, sizes.padding, sizes.padding);
    });
  }

  void buildForward(const Tensor& in) {
    description_ = describeForward(sizes_);
    const Converted source(site_, in, description_.src_desc(), Lifetime::forward);
    convert_in_ = source.convert;
    in_ = source.tensor;
    output_ = site_.tensor(description_.dst_desc(), Lifetime::forward);
    packed_.emplace(site_, *node_.weights[0], plain(sizes_.filter), description_.weights_desc());
    Arguments arguments = {
        {DNNL_ARG_SRC, in_}, {DNNL_ARG_WEIGHTS, packed_->tensor()}, {DNNL_ARG_DST, output_}};
    if (with_bias_) {
      bias_.emplace(site_, *node_.weights[1], biasLayout(), biasLayout());
      arguments.emplace_back(DNNL_ARG_BIAS, bias_->tensor());
    }
    forward_ = Op::of<Forward>(site_, description_, std::move(arguments));
  }

  /// Whether the gradient's primitive would pad the single input channel to a block of channels,
  /// and multiply the padding.
  bool multipliesNothing(const BackWeights::primitive_desc& description) const {
    const Layout has = plain(sizes_.in);
    return sizes_.in[1] == 1 && sizes_.filter[2] > 1 && in_.get_desc() == has &&
           description.src_desc().get_size() > has.get_size();
  }

  /// Returns the gradient in the layout that the primitive wants.
  Tensor buildWeights(const Tensor& gradient) {
    ConvolutionSizes sizes = sizes_;
    auto description = describeWeights(sizes, description_);
    if (multipliesNothing(description)) {
      sizes = rowsAsChannels(sizes_);
      description = describeWeights(sizes, describeForward(sizes));
      rows_ = site_.tensor(plain(sizes.in), Lifetime::passing);
    }
    const Converted given(site_, gradient, description.diff_dst_desc(), Lifetime::passing);
    const Converted source(site_, rows_ ? rows_ : in_, description.src_desc(), Lifetime::passing);
    convert_gradient_ = given.convert;
    convert_source_ = source.convert;
    made_.emplace(site_, *node_.weights[0], plain(sizes.filter), description.diff_weights_desc());
    Arguments arguments = {{DNNL_ARG_SRC, source.tensor},
                           {DNNL_ARG_DIFF_DST, given.tensor},
                           {DNNL_ARG_DIFF_WEIGHTS, made_->tensor()}};
    if (with_bias_) {
      made_bias_.emplace(site_, *node_.weights[1], biasLayout(), biasLayout());
      arguments.emplace_back(DNNL_ARG_DIFF_BIAS, made_bias_->tensor());
    }
    back_weights_ = Op::of<BackWeights>(site_, description, std::move(arguments));
    return given.tensor;
  }

  Tensor buildData(const Tensor& gradient) {
    const auto description = preferred(winograd_, [&](dnnl::algorithm algorithm, bool may_fail) {
      return describeBack<BackData>(
          {site_.engine(), attributes(), may_fail}, description_, algorithm, like(sizes_.in),
          like(sizes_.filter), like(sizes_.out), sizes_.strides, sizes_.padding, sizes_.padding);
    });
    const Converted given(site_, gradient, description.diff_dst_desc(), Lifetime::passing);
    convert_data_gradient_ = given.convert;
    data_packed_.emplace(site_, *node_.weights[0], plain(sizes_.filter),
                         description.weights_desc());
    Tensor result = site_.tensor(description.diff_src_desc(), Lifetime::passing);
    back_data_ = Op::of<BackData>(site_, description,
                                  {{DNNL_ARG_DIFF_DST, given.tensor},
                                   {DNNL_ARG_WEIGHTS, data_packed_->tensor()},
                                   {DNNL_ARG_DIFF_SRC, result}});
    return result;
  }

  Site& site_;
  const Node& node_;
  bool winograd_, relu_, relu_back_here_, with_bias_;
  ConvolutionSizes sizes_;
  Forward::primitive_desc description_;
  Tensor in_;   ///< input in the layout of the forward pass
  Tensor rows_; ///< the same with kernel rows as channels, or empty
  std::optional<Packed> packed_, bias_, data_packed_;
  std::optional<Unpacked> made_, made_bias_;
  Op convert_in_, forward_;
  Op convert_gradient_, convert_source_, back_weights_, convert_data_gradient_, back_data_;
  ReluBack relu_back_;
};

} // namespace

std::unique_ptr<Layer> build(const Convolution& value, const Blueprint& from) {
  return std::make_unique<ConvolutionLayer>(value, from);
}

} // namespace rondo::training::onednn
