// Softmax and cross-entropy on the CPU. The maximum is subtracted first, so that no exponential
// overflows.
#include "train/layers/onednn/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "train/layers/onednn/describe.h"

namespace rondo::training::onednn {

namespace {

/// Writes the exponentials of one sample's values to `to`, and returns their sum.
float exponentials(const float* row, std::size_t classes, float highest, float* to) {
  float sum = 0;
  for (std::size_t c = 0; c < classes; ++c) sum += to[c] = std::exp(row[c] - highest);
  return sum;
}

} // namespace

SoftmaxCrossEntropy::SoftmaxCrossEntropy(Site& site, const Tensor& in)
    : in_(site, in, plain(dimsOf(in.get_desc())), Lifetime::kept),
      gradient_(site.tensor(plain(dimsOf(in.get_desc())), Lifetime::kept)),
      classes_(static_cast<std::size_t>(dimsOf(in.get_desc())[1])) {}

double SoftmaxCrossEntropy::loss(const Batch& batch) {
  in_.convert.run();
  const auto* row = static_cast<const float*>(in_.tensor.get_data_handle());
  auto* to = static_cast<float*>(gradient_.get_data_handle());
  double loss = 0;
  for (std::size_t i = 0; i < batch.count; ++i, row += classes_, to += classes_) {
    const float highest = *std::max_element(row, row + classes_);
    const float sum = exponentials(row, classes_, highest, to);
    for (std::size_t c = 0; c < classes_; ++c) to[c] /= sum;
    to[batch.labels[i]] -= 1;
    loss += static_cast<double>(std::log(sum) - (row[batch.labels[i]] - highest));
  }
  return loss;
}

Score SoftmaxCrossEntropy::score(const Batch& batch) {
  const double sum = loss(batch);
  Score score{.loss = sum};
  const auto* row = static_cast<const float*>(in_.tensor.get_data_handle());
  for (std::size_t i = 0; i < batch.count; ++i, row += classes_)
    if (std::max_element(row, row + classes_) - row == batch.labels[i]) ++score.correct;
  return score;
}

} // namespace rondo::training::onednn
