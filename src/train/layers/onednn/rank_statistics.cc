// Sums statistics over ranks, and puts into the gradient what depends on them.
#include "train/layers/onednn/rank_statistics.h"

#include <algorithm>
#include <cmath>

#include "train/layers/values.h"

namespace rondo::training::onednn {

namespace {

using Forward = dnnl::batch_normalization_forward;
using Flags = dnnl::normalization_flags;

float* numbers(const Tensor& tensor) { return static_cast<float*>(tensor.get_data_handle()); }

/// Normalises `in` by the given statistics, scale and shift.
Op affine(Site& site, const Tensor& in, Arguments arguments) {
  const Forward::primitive_desc description(
      {dnnl::prop_kind::forward_inference, in.get_desc(), BatchNorm::kEpsilon,
       Flags::use_scale | Flags::use_shift | Flags::use_global_stats},
      attributes(), site.engine());
  return Op::of<Forward>(site, description, std::move(arguments));
}

} // namespace

RankStatistics::RankStatistics(Site& site, const Tensor& in, const Tensor& gradient,
                               const Tensor& mean, const Tensor& variance)
    : channels_(static_cast<std::size_t>(in.get_desc().dims()[1])),
      mean_(mean),
      variance_(variance),
      own_mean_(site.tensor(mean.get_desc(), Lifetime::kept)),
      own_variance_(site.tensor(mean.get_desc(), Lifetime::kept)),
      sums_(2 * channels_ + 1),
      scale_(site.tensor(mean.get_desc(), Lifetime::kept)),
      shift_(site.tensor(mean.get_desc(), Lifetime::kept)),
      correction_(site.tensor(in.get_desc(), Lifetime::kept)) {
  const Forward::primitive_desc own(
      {dnnl::prop_kind::forward_training, in.get_desc(), BatchNorm::kEpsilon, Flags::none},
      attributes(), site.engine());
  statistics_ = Op::of<Forward>(site, own,
                                {{DNNL_ARG_SRC, in},
                                 {DNNL_ARG_MEAN, own_mean_},
                                 {DNNL_ARG_VARIANCE, own_variance_},
                                 {DNNL_ARG_DST, correction_}}); // the values are of no use
  correct_ = affine(site, in,
                    {{DNNL_ARG_SRC, in},
                     {DNNL_ARG_MEAN, mean},
                     {DNNL_ARG_VARIANCE, variance},
                     {DNNL_ARG_SCALE, scale_},
                     {DNNL_ARG_SHIFT, shift_},
                     {DNNL_ARG_DST, correction_}});
  const Layout layout = gradient.get_desc();
  add_ = Op::of<dnnl::binary>(
      site, {{dnnl::algorithm::binary_add, layout, layout, layout}, attributes(), site.engine()},
      {{DNNL_ARG_SRC_0, gradient}, {DNNL_ARG_SRC_1, correction_}, {DNNL_ARG_DST, gradient}});
}

std::size_t RankStatistics::sum(std::size_t places, const SumOverRanks& over_ranks) {
  statistics_.run();
  const auto own = static_cast<float>(places);
  const float *mean = numbers(own_mean_), *variance = numbers(own_variance_);
  for (std::size_t c = 0; c < channels_; ++c) sums_[c] = own * mean[c];
  sums_[channels_] = own;
  over_ranks(sums_.data(), channels_ + 1);
  const float all = sums_[channels_];
  for (std::size_t c = 0; c < channels_; ++c) {
    const float common = numbers(mean_)[c] = sums_[c] / all;
    sums_[c] = own * (variance[c] + (mean[c] - common) * (mean[c] - common));
  }
  over_ranks(sums_.data(), channels_);
  for (std::size_t c = 0; c < channels_; ++c) numbers(variance_)[c] = sums_[c] / all;
  places_ = static_cast<double>(all);
  return static_cast<std::size_t>(all);
}

void RankStatistics::addToGradient(const Gradients& gradients, const SumOverRanks& over_ranks) {
  std::copy_n(numbers(gradients.scale), channels_, sums_.data());
  std::copy_n(numbers(gradients.shift), channels_, sums_.data() + channels_);
  over_ranks(sums_.data(), 2 * channels_);
  // With x' the normalised input and s = 1 / deviation, the mean and the variance add
  // -weight s (sum of shift's + x' sum of scale's) / places to the gradient of the input.
  for (std::size_t c = 0; c < channels_; ++c) {
    const double deviation =
        std::sqrt(static_cast<double>(numbers(variance_)[c]) + double{BatchNorm::kEpsilon});
    const double factor =
        -static_cast<double>(numbers(gradients.scale_value)[c]) / (deviation * places_);
    numbers(scale_)[c] = static_cast<float>(factor * static_cast<double>(sums_[c]));
    numbers(shift_)[c] = static_cast<float>(factor * static_cast<double>(sums_[channels_ + c]));
  }
  correct_.run();
  add_.run();
}

} // namespace rondo::training::onednn
