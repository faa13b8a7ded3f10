// Batch norm over the batches of all ranks: what it needs beyond each rank's own.
#pragma once

#include "train/layers/onednn/op.h"
#include "train/layers/statistics.h"

namespace rondo::training::onednn {

class RankStatistics {
 public:
  /// Of `in`, whose gradient is to be `gradient`; `mean` and `variance` are written by sum().
  RankStatistics(Site& site, const Tensor& in, const Tensor& gradient, const Tensor& mean,
                 const Tensor& variance);

  /// The statistics of all ranks' batches, of which this one's has so many places; gives how many
  /// all have.
  std::size_t sum(std::size_t places, const SumOverRanks& over_ranks);

  struct Gradients {
    const Tensor& scale_value; ///< the weight
    const Tensor& scale;       ///< this rank's gradients of scale and shift
    const Tensor& shift;
  };
  /// The gradient is there as if the statistics were constants; what follows from them is added.
  void addToGradient(const Gradients& gradients, const SumOverRanks& over_ranks);

 private:
  Tensor mean_, variance_, own_mean_, own_variance_;
  RankSums sums_;
  Tensor scale_, shift_, correction_;
  Op statistics_, correct_, add_;
};

} // namespace rondo::training::onednn
