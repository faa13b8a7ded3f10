// A network's layers and its loss, built on a device for batches of one size.
#include "train/layers/cudnn/program.h"

#include <algorithm>
#include <optional>

#include "train/layers/cudnn/chain.h"
#include "train/layers/cudnn/softmax_cross_entropy.h"

namespace rondo::training::cudnn {

namespace {

/// Values that cross between a device and the host's caller.
class Crossing {
 public:
  Crossing(Site& site, const Tensor& tensor)
      : site_(site), tensor_(tensor), host_(site.pinned<float>(site.size(tensor))) {}

  const float* host() const { return host_.get(); }
  void fetch() const {
    site_.copy(host_.get(), static_cast<const float*>(tensor_.data), site_.size(tensor_),
               cudaMemcpyDeviceToHost);
    site_.wait();
  }
  void send(const float* values) const {
    std::copy_n(values, site_.size(tensor_), host_.get());
    site_.copy(tensor_.data, static_cast<const float*>(host_.get()), site_.size(tensor_),
               cudaMemcpyHostToDevice);
  }

 private:
  const Site& site_;
  Tensor tensor_;
  Pinned<float> host_;
};

class NetworkProgram : public Program {
 public:
  NetworkProgram(const std::vector<Node>& nodes, const Binding& binding, int device)
      : site_(binding, device),
        input_(site_.tensor(binding.input)),
        layers_(site_, nodes, input_),
        sent_(site_, input_) {
    if (binding.ends) loss_.emplace(site_, layers_.output());
    else output_.emplace(site_, layers_.output());
    if (!binding.training) return;
    const Tensor gradient = loss_ ? loss_->gradient() : site_.tensor(layers_.output().shape);
    if (!loss_) gradient_.emplace(site_, gradient);
    const Tensor back = layers_.buildBack(gradient, !binding.begins);
    if (!binding.begins) back_.emplace(site_, back);
  }

  double forward(const Batch& batch, const Pass& pass) override { return run(batch, pass).loss; }
  Score evaluate(const Batch& batch) override { return run(batch, {}); }

  void backward(const float* gradient, const Ready& ready) override {
    site_.use();
    if (gradient_) gradient_->send(gradient);
    layers_.backward(ready);
    if (back_) back_->fetch();
  }

  std::size_t firstNotFinite() const override {
    site_.use();
    return layers_.firstNotFinite();
  }
  const float* output() const override { return output_->host(); }
  const float* inputGradient() const override { return back_->host(); }

 private:
  Score run(const Batch& batch, const Pass& pass) {
    site_.begin();
    sent_.send(batch.inputs);
    layers_.forward(batch, pass);
    if (loss_) return loss_->score(batch);
    output_->fetch();
    return {};
  }

  Site site_;
  Tensor input_;
  Chain layers_;
  Crossing sent_;
  std::optional<SoftmaxCrossEntropy> loss_;
  std::optional<Crossing> output_, gradient_, back_; ///< where other ranks have the other layers
};

} // namespace

std::unique_ptr<Program> makeProgram(const std::vector<Node>& nodes, const Binding& binding,
                                     int device) {
  if (binding.precision != Precision::float32)
    throw Error(ErrorCode::unsupported, "device cuda computes in float32 only");
  return std::make_unique<NetworkProgram>(nodes, binding, device);
}

} // namespace rondo::training::cudnn
