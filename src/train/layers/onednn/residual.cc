// Residual by oneDNN: adds two chains with the same input, and computes the ReLU after the sum.
#include "train/layers/onednn/chain.h"
#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/relu.h"

namespace rondo::training::onednn {

namespace {

/// to = a + b, in the common layout of a and to. b is converted if it has another layout.
struct Sum {
  Sum() = default;
  Sum(Site& site, const Tensor& a, const Tensor& b, const Tensor& to, bool relu) {
    const Layout layout = a.get_desc();
    const Converted other(site, b, layout, Lifetime::passing);
    convert = other.convert;
    const auto description = describe<dnnl::binary>(
        {site.engine(), attributes(relu)}, dnnl::algorithm::binary_add, layout, layout, layout);
    add = Op::of<dnnl::binary>(
        site, description,
        {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, other.tensor}, {DNNL_ARG_DST, to}});
  }

  void run() const {
    convert.run();
    add.run();
  }

  Op convert, add;
};

class ResidualLayer : public Layer {
 public:
  explicit ResidualLayer(const Blueprint& from)
      : site_(from.site),
        relu_(from.relu),
        body_(site_, from.node.body, from.in),
        shortcut_(site_, from.node.shortcut, from.in) {
    output_ = site_.tensor(body_.output().get_desc(), Lifetime::forward);
    sum_ = Sum(site_, body_.output(), shortcut_.output(), output_, relu_);
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    Tensor output_gradient = gradient;
    if (relu_) {
      relu_back_ = ReluBack(site_, output_, gradient);
      output_gradient = relu_back_.gradient();
    }
    const Tensor shortcut = shortcut_.buildBack(output_gradient, wanted);
    const Tensor body = body_.buildBack(output_gradient, wanted);
    if (!wanted) return {};
    Tensor result = site_.tensor(body.get_desc(), Lifetime::passing);
    sum_back_ = Sum(site_, body, shortcut, result, false);
    return result;
  }

  void forward(const Batch& batch, const Pass& pass) override {
    body_.forward(batch, pass);
    shortcut_.forward(batch, pass);
    sum_.run();
  }

  void backward(const GradientReady& ready) override {
    relu_back_.run();
    shortcut_.backward(ready);
    body_.backward(ready);
    sum_back_.run();
  }

 private:
  Site& site_;
  bool relu_;
  Chain body_, shortcut_;
  Sum sum_, sum_back_;
  ReluBack relu_back_;
};

} // namespace

std::unique_ptr<Layer> build(const Residual&, const Blueprint& from) {
  return std::make_unique<ResidualLayer>(from);
}

} // namespace rondo::training::onednn
