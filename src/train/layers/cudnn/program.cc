// Implements Program on a device: the layers of a network and its loss, for batches of one size.
#include "train/layers/cudnn/program.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "train/layers/cudnn/chain.h"
#include "train/layers/cudnn/softmax_cross_entropy.h"

namespace rondo::training::cudnn {

namespace {

/// Values that are copied between the device and the caller's host memory.
class Crossing {
 public:
  Crossing(Site& site, const Tensor& tensor)
      : site_(site), tensor_(tensor), host_(site.pinned<float>(site.size(tensor))) {}

  const float* host() const { return host_.get(); }
  void fetch(std::string_view what) const {
    site_.copy(host_.get(), static_cast<const float*>(tensor_.data), site_.size(tensor_),
               cudaMemcpyDeviceToHost);
    site_.wait(what);
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

/// Everything that is on the device.
struct Parts {
  Parts(const std::vector<Node>& nodes, const Binding& binding, const Gpu& gpu)
      : site(binding, gpu),
        input(site.tensor(binding.input)),
        layers(site, nodes, input, binding.before),
        sent(site, input) {
    if (binding.ends) loss.emplace(site, layers.output());
    else output.emplace(site, layers.output());
    if (!binding.training) return;
    const Tensor output_gradient = loss ? loss->gradient() : site.tensor(layers.output().shape);
    if (!loss) gradient.emplace(site, output_gradient);
    const Tensor made = layers.buildBack(output_gradient, !binding.begins);
    if (!binding.begins) back.emplace(site, made);
  }

  Site site;
  Tensor input;
  Chain layers;
  Crossing sent;
  std::optional<SoftmaxCrossEntropy> loss;
  /// Used if other ranks have the layers before or after these.
  std::optional<Crossing> output, gradient, back;
};

/// Keeps the parts until the program ends, in memory that the leak sanitizer can see.
void keep(std::unique_ptr<Parts> parts) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<Parts>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(parts));
}

class NetworkProgram : public Program {
 public:
  NetworkProgram(const std::vector<Node>& nodes, const Binding& binding, const Gpu& gpu)
      : parts_(std::make_unique<Parts>(nodes, binding, gpu)) {}
  NetworkProgram(const NetworkProgram&) = delete;
  NetworkProgram& operator=(const NetworkProgram&) = delete;
  ~NetworkProgram() override {
    const Site& site = parts_->site;
    try {
      site.use();
      if (!site.stuck()) site.wait("its last work");
    } catch (const Error&) {
      // Work that does not end is detected below. After any other error no work is running.
    }
    if (site.stuck()) keep(std::move(parts_));
  }

  double forward(const Batch& batch, const Pass& pass) override { return run(batch, pass).loss; }
  Score evaluate(const Batch& batch) override { return run(batch, {}); }

  void backward(const float* gradient, const GradientReady& ready) override {
    parts_->site.begin();
    if (parts_->gradient) parts_->gradient->send(gradient);
    parts_->layers.backward(ready);
    parts_->site.deliver(ready);
    if (parts_->back) parts_->back->fetch("the gradient of its input");
    parts_->site.end();
  }

  std::size_t firstNotFinite() const override {
    parts_->site.use();
    return parts_->layers.firstNotFinite();
  }
  const float* output() const override { return parts_->output->host(); }
  const float* inputGradient() const override { return parts_->back->host(); }

 private:
  Score run(const Batch& batch, const Pass& pass) {
    Parts& all = *parts_;
    all.site.begin();
    pass_ = pass; // the backward pass may also need sums over ranks
    all.sent.send(batch.inputs);
    all.layers.forward(batch, pass_);
    Score score;
    if (all.loss) score = all.loss->score(batch);
    else all.output->fetch("the output of its layers");
    all.site.end(); // score() and fetch() have waited for the stream
    return score;
  }

  std::unique_ptr<Parts> parts_;
  Pass pass_;
};

} // namespace

std::unique_ptr<Program> makeProgram(const std::vector<Node>& nodes, const Binding& binding,
                                     const Gpu& gpu) {
  if (binding.precision != Precision::float32)
    throw Error(ErrorCode::unsupported, "device cuda computes in float32 only");
  return std::make_unique<NetworkProgram>(nodes, binding, gpu);
}

} // namespace rondo::training::cudnn
