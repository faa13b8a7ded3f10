// Dropout on the CPU: the random factors of a sample depend on its number.
#include "train/layers/dropout.h"
#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/layer.h"
#include "train/layers/onednn/op.h"

namespace rondo::training::onednn {

namespace {

/// Uses plain layouts only: which value is dropped must not depend on its position in memory.
class DropoutLayer : public Layer {
 public:
  DropoutLayer(const Dropout& value, const Blueprint& from)
      : site_(from.site),
        dropping_(value, from.node.path),
        in_(site_, from.in, plain(dimsOf(from.in.get_desc())), Lifetime::forward),
        factors_(site_.binding().count * from.node.in.size()) {
    output_ = site_.tensor(in_.tensor.get_desc(), Lifetime::forward);
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    if (!wanted) return {};
    const Converted given(site_, gradient, output_.get_desc(), Lifetime::passing);
    convert_back_ = given.convert;
    gradient_ = given.tensor;
    back_ = site_.tensor(output_.get_desc(), Lifetime::passing);
    return back_;
  }

  void forward(const Batch& batch, const Pass& pass) override {
    in_.convert.run();
    const std::size_t size = factors_.size() / batch.count;
    for (std::size_t i = 0; i < batch.count; ++i)
      draw(pass.seed, batch.samples[i], factors_.data() + i * size, size);
    multiply(in_.tensor, output_);
  }

  void backward(const GradientReady&) override {
    convert_back_.run();
    if (gradient_) multiply(gradient_, back_);
  }

 private:
  void draw(std::uint64_t seed, std::uint32_t sample, float* factors, std::size_t size) const {
    Random random(dropping_.start(seed, sample));
    for (std::size_t i = 0; i < size; ++i)
      factors[i] = (random.next() >> 32) < dropping_.limit ? 0.0F : dropping_.kept;
  }

  void multiply(const Tensor& from, const Tensor& to) const {
    const auto* values = static_cast<const float*>(from.get_data_handle());
    auto* results = static_cast<float*>(to.get_data_handle());
    for (std::size_t i = 0; i < factors_.size(); ++i) results[i] = values[i] * factors_[i];
  }

  Site& site_;
  Dropping dropping_;
  Converted in_;
  AlignedVector<float> factors_; ///< 0, or the scale of values that are kept
  Op convert_back_;
  Tensor gradient_, back_;
};

/// Dropout in evaluation: the identity.
class Nothing : public Layer {
 public:
  explicit Nothing(const Tensor& in) { output_ = in; }
  Tensor buildBack(const Tensor& gradient, bool) override { return gradient; }
  void forward(const Batch&, const Pass&) override {}
  void backward(const GradientReady&) override {}
};

} // namespace

std::unique_ptr<Layer> build(const Dropout& value, const Blueprint& from) {
  if (!from.site.binding().training) return std::make_unique<Nothing>(from.in);
  return std::make_unique<DropoutLayer>(value, from);
}

} // namespace rondo::training::onednn
