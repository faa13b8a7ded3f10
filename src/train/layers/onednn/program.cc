// Implements Program by oneDNN: the layers of a network and its loss, for batches of one size.
#include "train/layers/onednn/program.h"

#include <algorithm>
#include <optional>
#include <string>

#include "rondo/error.h"
#include "train/layers/onednn/chain.h"
#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/softmax_cross_entropy.h"

namespace rondo::training::onednn {

namespace {

Layout inputLayout(const Binding& binding) {
  const auto dim = [](std::size_t size) { return static_cast<dnnl::memory::dim>(size); };
  return plain({dim(binding.count), dim(binding.input.channels), dim(binding.input.height),
                dim(binding.input.width)});
}

float* values(const Tensor& tensor) { return static_cast<float*>(tensor.get_data_handle()); }

/// Replaces the loss if other ranks have the next layers: the output and its gradient, in plain
/// layouts.
class Outlet {
 public:
  Outlet(Site& site, const Tensor& made)
      : out_(site, made, plain(dimsOf(made.get_desc())), Lifetime::kept) {
    if (site.binding().training) gradient_ = site.tensor(out_.tensor.get_desc(), Lifetime::kept);
  }

  const Tensor& gradient() const { return gradient_; }
  void forward() const { out_.convert.run(); }
  const float* output() const { return values(out_.tensor); }
  void take(const float* gradient) const {
    std::copy_n(gradient, gradient_.get_desc().get_size() / sizeof(float), values(gradient_));
  }

 private:
  Converted out_;
  Tensor gradient_;
};

class NetworkProgram : public Program {
 public:
  NetworkProgram(const std::vector<Node>& nodes, const Binding& binding)
      : site_(binding),
        input_(site_.view(inputLayout(binding))),
        layers_(site_, nodes, input_, binding.before) {
    if (binding.ends) loss_.emplace(site_, layers_.output());
    else outlet_.emplace(site_, layers_.output());
    if (!binding.training) return;
    const Tensor back =
        layers_.buildBack(loss_ ? loss_->gradient() : outlet_->gradient(), !binding.begins);
    if (!binding.begins) back_.emplace(site_, back, input_.get_desc(), Lifetime::kept);
  }

  double forward(const Batch& batch, const Pass& pass) override {
    pass_ = pass; // the backward pass may also need sums over ranks
    run(batch);
    return loss_ ? loss_->loss(batch) : 0;
  }

  void backward(const float* gradient, const GradientReady& ready) override {
    if (outlet_) outlet_->take(gradient);
    layers_.backward(ready);
    if (back_) back_->convert.run();
  }

  std::size_t firstNotFinite() const override { return layers_.firstNotFinite(); }

  Score evaluate(const Batch& batch) override {
    run(batch);
    return loss_ ? loss_->score(batch) : Score();
  }

  const float* output() const override { return outlet_->output(); }
  const float* inputGradient() const override { return values(back_->tensor); }

 private:
  void run(const Batch& batch) {
    input_.set_data_handle(const_cast<float*>(batch.inputs)); // never written
    layers_.forward(batch, pass_);
    if (outlet_) outlet_->forward();
  }

  Site site_;
  Tensor input_;
  Chain layers_;
  std::optional<SoftmaxCrossEntropy> loss_;
  std::optional<Outlet> outlet_; ///< if there is no loss
  std::optional<Converted> back_;
  Pass pass_;
};

} // namespace

bool computes(Precision precision) {
  // The value of an instruction set contains the bits of all sets that it includes.
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const auto there = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return precision == Precision::float32 || (there & wanted) == wanted;
}

std::unique_ptr<Program> makeProgram(const std::vector<Node>& nodes, const Binding& binding) {
  const auto lock = making();
  try {
    return std::make_unique<NetworkProgram>(nodes, binding);
  } catch (const dnnl::error& error) {
    throw Error(ErrorCode::system, "oneDNN could not build the network for " +
                                       std::to_string(binding.count) + " samples: " + error.what());
  }
}

} // namespace rondo::training::onednn
