// Batch norm over the batches of all ranks, by kernels of its own, because cuDNN only knows the
// batch of this rank.
#pragma once

#include "train/layers/cudnn/kernels.h"
#include "train/layers/cudnn/site.h"
#include "train/layers/statistics.h"

namespace rondo::training::cudnn {

class RankStatistics {
 public:
  /// Size of the site's workspace that sums need. Must be reserved when the layer is built.
  static std::size_t workspaceBytes(std::size_t channels) {
    return 2 * channels * kSumParts * sizeof(double);
  }

  RankStatistics(const Site& site, const Tensor& in);

  /// In host memory.
  struct Weights {
    const float *scale, *shift;
  };
  /// Normalises by the statistics of all ranks' batches, and returns the number of places of all
  /// ranks. Waits for the stream.
  std::size_t forward(const Weights& weights, const Tensor& to, const SumOverRanks& over_ranks);
  const float* mean() const { return mean_.data(); }
  const float* variance() const { return variance_.data(); }

  /// After forward(): computes this rank's gradients of scale and shift. Waits for the stream.
  struct Gradients {
    float *scale, *shift;
  };
  void sumGradients(const Tensor& gradient, const Gradients& to);
  /// After sumGradients(): computes the gradient of the input.
  void backward(const Weights& weights, const Gradients& own, const Tensor& gradient,
                const Tensor& to, const SumOverRanks& over_ranks);

 private:
  std::size_t channels() const { return in_.shape.channels; }
  std::size_t places() const { return in_.shape.height * in_.shape.width; }
  double inverseDeviation(std::size_t channel) const;
  /// Sets sums_ to the sum of each channel's values, and of their products with the input. Waits.
  void sum(const Tensor& values);
  void apply(const float* gradients, const Tensor& to);

  const Site& site_;
  Tensor in_;
  RankSums ranks_;
  AlignedVector<float> mean_, variance_; ///< of all ranks' batches
  AlignedVector<float> scale_, shift_;   ///< terms that the statistics add to a gradient
  OnDevice<double> made_;
  Pinned<double> sums_;
  OnDevice<Affine> by_;
  Pinned<Affine> next_;
};

} // namespace rondo::training::cudnn
