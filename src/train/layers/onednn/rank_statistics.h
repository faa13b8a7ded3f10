// Batch norm over the batches of all ranks: the part that goes beyond each rank's own batch.
#pragma once

#include "train/layers/onednn/op.h"
#include "train/layers/statistics.h"

namespace rondo::training::onednn {

class RankStatistics {
 public:
  /// For the input `in` with the gradient `gradient`. sum() writes `mean` and `variance`.
  RankStatistics(Site& site, const Tensor& in, const Tensor& gradient, const Tensor& mean,
                 const Tensor& variance);

  /// Computes the statistics of all ranks' batches, where this rank's batch has `places` places.
  /// Returns the number of places of all ranks.
  std::size_t sum(std::size_t places, const SumOverRanks& over_ranks);

  struct Gradients {
    const Tensor& scale_value; ///< value of the weight
    const Tensor& scale;       ///< this rank's gradients of scale and shift
    const Tensor& shift;
  };
  /// The gradient must have been computed as if the statistics were constants. Adds the part that
  /// comes from the statistics.
  void addToGradient(const Gradients& gradients, const SumOverRanks& over_ranks);

 private:
  Tensor mean_, variance_, own_mean_, own_variance_;
  RankSums sums_;
  Tensor scale_, shift_, correction_;
  Op statistics_, correct_, add_;
};

} // namespace rondo::training::onednn
