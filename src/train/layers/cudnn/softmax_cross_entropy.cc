#include "train/layers/cudnn/softmax_cross_entropy.h"

#include <algorithm>

#include "train/layers/cudnn/kernels.h"

namespace rondo::training::cudnn {

SoftmaxCrossEntropy::SoftmaxCrossEntropy(Site& site, const Tensor& in)
    : site_(site),
      in_(in),
      gradient_(site.tensor(in.shape)),
      labels_(site.onDevice<std::uint8_t>(site.binding().count)),
      correct_(site.onDevice<std::uint8_t>(site.binding().count)),
      losses_(site.onDevice<double>(site.binding().count)),
      leaving_(site.pinned<std::uint8_t>(site.binding().count)),
      seen_correct_(site.pinned<std::uint8_t>(site.binding().count)),
      seen_losses_(site.pinned<double>(site.binding().count)) {}

Score SoftmaxCrossEntropy::score(const Batch& batch) {
  const std::size_t count = batch.count;
  std::copy_n(batch.labels, count, leaving_.get());
  site_.copy(labels_.get(), static_cast<const std::uint8_t*>(leaving_.get()), count,
             cudaMemcpyHostToDevice);
  run(LossCall{.from = in_.data,
               .gradient = gradient_.data,
               .labels = labels_.get(),
               .losses = losses_.get(),
               .correct = correct_.get(),
               .samples = count,
               .classes = in_.shape.size()},
      site_.stream());
  site_.copy(seen_correct_.get(), static_cast<const std::uint8_t*>(correct_.get()), count,
             cudaMemcpyDeviceToHost);
  site_.copy(seen_losses_.get(), static_cast<const double*>(losses_.get()), count,
             cudaMemcpyDeviceToHost);
  site_.wait("the loss");
  Score score;
  for (std::size_t i = 0; i < count; ++i) {
    score.loss += seen_losses_.get()[i];
    score.correct += seen_correct_.get()[i];
  }
  return score;
}

} // namespace rondo::training::cudnn
