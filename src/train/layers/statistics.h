// What batch norm does with its statistics on the host: the same in every backend.
#pragma once

#include <cstddef>
#include <functional>

#include "train/aligned.h"
#include "train/layers/weight.h"

namespace rondo::training {

/// As Pass has it.
using SumOverRanks = std::function<void(float*, std::size_t)>;

/// A batch's own statistic, times the factor, goes where Weight::gradient says.
void takeStatistic(const Weight& running, const float* statistic, float factor = 1);

/// What makes the variance of so many values the unbiased one; of one value there is none.
float unbiased(std::size_t values);

/// The statistics of all ranks' batches, and what follows from them for gradients. Each array has a
/// value for every channel.
class RankSums {
 public:
  explicit RankSums(std::size_t channels) : channels_(channels), sums_(2 * channels + 1) {}

  template <class Value>
  struct Moments {
    Value *mean, *variance;
  };
  /// Makes those of all ranks' batches from this one's, which has so many places; gives how many
  /// all have. In two steps, since a mean of squares less a squared mean would cancel.
  std::size_t sum(std::size_t places, const Moments<const float>& own, const Moments<float>& all,
                  const SumOverRanks& over_ranks);

  template <class Value>
  struct Affine {
    Value *scale, *shift;
  };
  struct Gradients {
    const float* scale;    ///< the weight
    const float* variance; ///< of all ranks' batches
    Affine<const float> own;
  };
  /// With x' the normalised input: what scale x' + shift adds to the gradient of the input, where
  /// that takes the statistics for constants. Behind sum().
  void correction(const Gradients& gradients, const Affine<float>& to,
                  const SumOverRanks& over_ranks);

 private:
  std::size_t channels_;
  AlignedVector<float> sums_;
  double places_ = 0; ///< of all ranks
};

} // namespace rondo::training
