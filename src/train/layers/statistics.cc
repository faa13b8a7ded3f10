#include "train/layers/statistics.h"

#include <algorithm>
#include <cmath>

#include "train/layers/values.h"

namespace rondo::training {

void takeStatistic(const Weight& running, const float* statistic, float factor) {
  for (std::size_t c = 0; c < running.size(); ++c) {
    const float now = factor * statistic[c];
    if (running.gradient != nullptr) running.gradient[c] = now;
    else running.value[c] += BatchNorm::kNewest * (now - running.value[c]);
  }
}

float unbiased(std::size_t values) {
  const auto n = static_cast<double>(values);
  return static_cast<float>(values > 1 ? n / (n - 1) : 1);
}

std::size_t RankSums::sum(std::size_t places, const Moments<const float>& own,
                          const Moments<float>& all, const SumOverRanks& over_ranks) {
  const auto count = static_cast<float>(places);
  for (std::size_t c = 0; c < channels_; ++c) sums_[c] = count * own.mean[c];
  sums_[channels_] = count;
  over_ranks(sums_.data(), channels_ + 1);
  const float total = sums_[channels_];
  for (std::size_t c = 0; c < channels_; ++c) {
    const float common = all.mean[c] = sums_[c] / total;
    sums_[c] = count * (own.variance[c] + (own.mean[c] - common) * (own.mean[c] - common));
  }
  over_ranks(sums_.data(), channels_);
  for (std::size_t c = 0; c < channels_; ++c) all.variance[c] = sums_[c] / total;
  places_ = static_cast<double>(total);
  return static_cast<std::size_t>(total);
}

void RankSums::correction(const Gradients& gradients, const Affine<float>& to,
                          const SumOverRanks& over_ranks) {
  std::copy_n(gradients.own.scale, channels_, sums_.data());
  std::copy_n(gradients.own.shift, channels_, sums_.data() + channels_);
  over_ranks(sums_.data(), 2 * channels_);
  // With s = 1 / deviation, mean and variance contribute -weight s (sum of the gradients of shift +
  // x' sum of the gradients of scale) / places.
  for (std::size_t c = 0; c < channels_; ++c) {
    const double deviation =
        std::sqrt(static_cast<double>(gradients.variance[c]) + double{BatchNorm::kEpsilon});
    const double factor = -static_cast<double>(gradients.scale[c]) / (deviation * places_);
    to.scale[c] = static_cast<float>(factor * static_cast<double>(sums_[c]));
    to.shift[c] = static_cast<float>(factor * static_cast<double>(sums_[channels_ + c]));
  }
}

} // namespace rondo::training
