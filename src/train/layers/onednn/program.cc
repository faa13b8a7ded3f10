// A network's layers and its loss, built for batches of one size.
#include "train/layers/onednn/program.h"

#include <string>

#include "rondo/error.h"
#include "train/layers/onednn/chain.h"
#include "train/layers/onednn/softmax_cross_entropy.h"

namespace rondo::training::onednn {

namespace {

Layout inputLayout(const Binding& binding) {
  const auto dim = [](std::size_t size) { return static_cast<dnnl::memory::dim>(size); };
  return plain({dim(binding.count), dim(binding.input.channels), dim(binding.input.height),
                dim(binding.input.width)});
}

class NetworkProgram : public Program {
 public:
  NetworkProgram(const std::vector<Node>& nodes, const Binding& binding)
      : site_(binding),
        input_(site_.view(inputLayout(binding))),
        layers_(site_, nodes, input_),
        loss_(site_, layers_.output()) {
    if (binding.training) layers_.buildBack(loss_.gradient(), false);
  }

  double forward(const Batch& batch, const Pass& pass) override {
    pass_ = pass; // the way back may ask for sums over ranks, too
    run(batch);
    return loss_.loss(batch);
  }

  void backward(const Ready& ready) override { layers_.backward(ready); }

  std::size_t firstNotFinite() const override { return layers_.firstNotFinite(); }

  Score evaluate(const Batch& batch) override {
    run(batch);
    return loss_.score(batch);
  }

 private:
  void run(const Batch& batch) {
    input_.set_data_handle(const_cast<float*>(batch.inputs)); // which nothing writes to
    layers_.forward(batch, pass_);
  }

  Site site_;
  Tensor input_;
  Chain layers_;
  SoftmaxCrossEntropy loss_;
  Pass pass_;
};

} // namespace

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
