#include "train/layers/cudnn/rank_statistics.h"

#include <algorithm>
#include <cmath>

#include "train/layers/values.h"

namespace rondo::training::cudnn {

RankStatistics::RankStatistics(const Site& site, const Tensor& in)
    : site_(site),
      in_(in),
      ranks_(channels()),
      mean_(channels()),
      variance_(channels()),
      scale_(channels()),
      shift_(channels()),
      made_(site.onDevice<double>(2 * channels())),
      sums_(site.pinned<double>(2 * channels())),
      by_(site.onDevice<Affine>(channels())),
      next_(site.pinned<Affine>(channels())) {}

double RankStatistics::inverseDeviation(std::size_t channel) const {
  return 1 / std::sqrt(static_cast<double>(variance_[channel]) + double{BatchNorm::kEpsilon});
}

void RankStatistics::sum(const Tensor& values) {
  auto* const parts = static_cast<double*>(site_.workspace());
  run(ChannelSumsCall{.values = values.data,
                      .times = in_.data,
                      .parts = parts,
                      .samples = site_.binding().count,
                      .channels = channels(),
                      .places = places()},
      site_.stream());
  run(JoinCall{parts, made_.get(), 2 * channels()}, site_.stream());
  site_.copy(sums_.get(), static_cast<const double*>(made_.get()), 2 * channels(),
             cudaMemcpyDeviceToHost);
  site_.wait("a batch's statistics");
}

void RankStatistics::apply(const float* gradients, const Tensor& to) {
  site_.copy(by_.get(), static_cast<const Affine*>(next_.get()), channels(),
             cudaMemcpyHostToDevice);
  run(AffineCall{.gradients = gradients,
                 .values = in_.data,
                 .by = by_.get(),
                 .to = to.data,
                 .samples = site_.binding().count,
                 .channels = channels(),
                 .places = places()},
      site_.stream());
}

std::size_t RankStatistics::forward(const Weights& weights, const Tensor& to,
                                    const SumOverRanks& over_ranks) {
  sum(in_);
  const std::size_t own = site_.binding().count * places();
  for (std::size_t c = 0; c < channels(); ++c) {
    const double mean = sums_.get()[c] / static_cast<double>(own),
                 squares = sums_.get()[channels() + c] / static_cast<double>(own);
    scale_[c] = static_cast<float>(mean);
    shift_[c] = static_cast<float>(std::max(squares - mean * mean, 0.0));
  }
  const std::size_t all =
      ranks_.sum(own, {scale_.data(), shift_.data()}, {mean_.data(), variance_.data()}, over_ranks);
  for (std::size_t c = 0; c < channels(); ++c)
    next_.get()[c] = {
        .gradient = 0,
        .value = static_cast<float>(static_cast<double>(weights.scale[c]) * inverseDeviation(c)),
        .mean = mean_[c],
        .shift = weights.shift[c]};
  apply(nullptr, to);
  return all;
}

void RankStatistics::sumGradients(const Tensor& gradient, const Gradients& to) {
  sum(gradient);
  for (std::size_t c = 0; c < channels(); ++c) {
    const double sum = sums_.get()[c], products = sums_.get()[channels() + c];
    to.shift[c] = static_cast<float>(sum);
    to.scale[c] =
        static_cast<float>((products - static_cast<double>(mean_[c]) * sum) * inverseDeviation(c));
  }
}

void RankStatistics::backward(const Weights& weights, const Gradients& own, const Tensor& gradient,
                              const Tensor& to, const SumOverRanks& over_ranks) {
  ranks_.correction(
      {.scale = weights.scale, .variance = variance_.data(), .own = {own.scale, own.shift}},
      {scale_.data(), shift_.data()}, over_ranks);
  for (std::size_t c = 0; c < channels(); ++c) {
    const double inverse = inverseDeviation(c);
    next_.get()[c] = {
        .gradient = static_cast<float>(static_cast<double>(weights.scale[c]) * inverse),
        .value = static_cast<float>(static_cast<double>(scale_[c]) * inverse),
        .mean = mean_[c],
        .shift = shift_[c]};
  }
  apply(gradient.data, to);
}

} // namespace rondo::training::cudnn
