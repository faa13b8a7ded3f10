// Computes norms in eight lanes, which compilers vectorise without reordering sums.
#include "train/optim/norm.h"

#include <array>
#include <cmath>

namespace rondo::training {

double squaredNorm(const float* values, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (; i < count; ++i) {
    const double value = values[i];
    sum += value * value;
  }
  return sum;
}

Clipped clip(std::span<Weight* const> weights, float scale, double limit,
             const SumOverShards& sum_over_shards) {
  double sum = 0;
  for (const Weight* weight : weights) sum += squaredNorm(weight->gradient, weight->size());
  if (sum_over_shards) sum_over_shards({&sum, 1});
  const double norm = static_cast<double>(scale) * std::sqrt(sum);
  if (norm <= limit) return {norm, scale};
  // The margin keeps rounding from leaving the norm above the limit; PyTorch has the same.
  constexpr double kMargin = 1e-6;
  return {norm, static_cast<float>(scale * (limit / (norm + kMargin)))};
}

} // namespace rondo::training
