// Dropout by kernels of its own: the random numbers of a sample depend on its number, and are drawn
// again in the backward pass.
#include "train/layers/dropout.h"
#include "train/layers/cudnn/kernels.h"
#include "train/layers/cudnn/layer.h"

namespace rondo::training::cudnn {

namespace {

class DropoutLayer : public Layer {
 public:
  DropoutLayer(const Dropout& value, const Blueprint& from)
      : site_(from.site),
        dropping_(value, from.node.path),
        in_(from.in),
        drawn_(site_.pinned<std::uint64_t>(site_.binding().count)),
        starts_(site_.onDevice<std::uint64_t>(site_.binding().count)) {
    output_ = site_.tensor(in_.shape);
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    gradient_ = gradient;
    if (wanted) back_ = site_.tensor(in_.shape);
    return back_;
  }

  void forward(const Batch& batch, const Pass& pass) override {
    for (std::size_t i = 0; i < batch.count; ++i)
      drawn_.get()[i] = dropping_.start(pass.seed, batch.samples[i]);
    site_.copy(starts_.get(), static_cast<const std::uint64_t*>(drawn_.get()), batch.count,
               cudaMemcpyHostToDevice);
    drop(in_.data, output_.data);
  }

  void backward(const GradientReady&) override {
    if (back_) drop(gradient_.data, back_.data);
  }

 private:
  void drop(const float* from, float* to) const {
    run(DropoutCall{.from = from,
                    .to = to,
                    .starts = starts_.get(),
                    .samples = site_.binding().count,
                    .size = in_.shape.size(),
                    .limit = dropping_.limit,
                    .kept = dropping_.kept},
        site_.stream());
  }

  Site& site_;
  Dropping dropping_;
  Tensor in_;
  Pinned<std::uint64_t> drawn_;
  OnDevice<std::uint64_t> starts_;
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

} // namespace rondo::training::cudnn
