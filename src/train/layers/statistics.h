// Computes batch norm's statistics on the host, the same in every backend.
#pragma once

#include <cstddef>
#include <functional>

#include "train/aligned.h"
#include "train/layers/weight.h"

namespace rondo::training {

/// The type of Pass::sum_over_ranks.
using SumOverRanks = std::function<void(float*, std::size_t)>;

/// Stores a statistic of the batch, times `factor`, as described at Weight::gradient.
void takeStatistic(const Weight& running, const float* statistic, float factor = 1);

/// The factor that makes the variance of `values` values unbiased; 1 for a single value.
float unbiased(std::size_t values);

/// The statistics of all ranks' batches, and their contribution to gradients. Each array has a
/// value for every channel.
class RankSums {
 public:
  explicit RankSums(std::size_t channels) : channels_(channels), sums_(2 * channels + 1) {}

  template <class Value>
  struct Moments {
    Value *mean, *variance;
  };
  /// Computes the statistics of all ranks' batches in `all`, from those of this rank's batch of
  /// `places` places. Returns the number of places of all ranks. Uses two sums over ranks, the mean
  /// first, because a mean of squares minus a squared mean would lose precision.
  std::size_t sum(std::size_t places, const Moments<const float>& own, const Moments<float>& all,
                  const SumOverRanks& over_ranks);

  template <class Value>
  struct Affine {
    Value *scale, *shift;
  };
  struct Gradients {
    const float* scale;    ///< value of the weight
    const float* variance; ///< of all ranks' batches
    Affine<const float> own;
  };
  /// Call after sum(). Sets `to` so that scale x' + shift (x': the normalised input) is what the
  /// statistics, which depend on the input, add to its gradient.
  void correction(const Gradients& gradients, const Affine<float>& to,
                  const SumOverRanks& over_ranks);

 private:
  std::size_t channels_;
  AlignedVector<float> sums_;
  double places_ = 0; ///< of all ranks
};

} // namespace rondo::training
