// Sums statistics over ranks, and corrects the gradient for their dependence on the input.
#include "train/layers/onednn/rank_statistics.h"

#include "train/layers/onednn/describe.h"
#include "train/layers/values.h"

namespace rondo::training::onednn {

namespace {

using Forward = dnnl::batch_normalization_forward;
using Flags = dnnl::normalization_flags;

float* numbers(const Tensor& tensor) { return static_cast<float*>(tensor.get_data_handle()); }

/// Normalises `in` with given statistics, scale and shift.
Op affine(Site& site, const Tensor& in, Arguments arguments) {
  const Layout layout = in.get_desc();
  const auto description = describe<Forward>(
      {site.engine(), attributes()}, dnnl::prop_kind::forward_inference, layout, since3(layout),
      BatchNorm::kEpsilon, Flags::use_scale | Flags::use_shift | Flags::use_global_stats);
  return Op::of<Forward>(site, description, std::move(arguments));
}

} // namespace

RankStatistics::RankStatistics(Site& site, const Tensor& in, const Tensor& gradient,
                               const Tensor& mean, const Tensor& variance)
    : mean_(mean),
      variance_(variance),
      own_mean_(site.tensor(mean.get_desc(), Lifetime::kept)),
      own_variance_(site.tensor(mean.get_desc(), Lifetime::kept)),
      sums_(static_cast<std::size_t>(dimsOf(in.get_desc())[1])),
      scale_(site.tensor(mean.get_desc(), Lifetime::kept)),
      shift_(site.tensor(mean.get_desc(), Lifetime::kept)),
      correction_(site.tensor(in.get_desc(), Lifetime::kept)) {
  const auto own =
      describe<Forward>({site.engine(), attributes()}, dnnl::prop_kind::forward_training,
                        in.get_desc(), since3(in.get_desc()), BatchNorm::kEpsilon, Flags::none);
  statistics_ = Op::of<Forward>(site, own,
                                {{DNNL_ARG_SRC, in},
                                 {DNNL_ARG_MEAN, own_mean_},
                                 {DNNL_ARG_VARIANCE, own_variance_},
                                 {DNNL_ARG_DST, correction_}}); // only the statistics are used
  correct_ = affine(site, in,
                    {{DNNL_ARG_SRC, in},
                     {DNNL_ARG_MEAN, mean},
                     {DNNL_ARG_VARIANCE, variance},
                     {DNNL_ARG_SCALE, scale_},
                     {DNNL_ARG_SHIFT, shift_},
                     {DNNL_ARG_DST, correction_}});
  const Layout layout = gradient.get_desc();
  add_ = Op::of<dnnl::binary>(
      site,
      describe<dnnl::binary>({site.engine(), attributes()}, dnnl::algorithm::binary_add, layout,
                             layout, layout),
      {{DNNL_ARG_SRC_0, gradient}, {DNNL_ARG_SRC_1, correction_}, {DNNL_ARG_DST, gradient}});
}

std::size_t RankStatistics::sum(std::size_t places, const SumOverRanks& over_ranks) {
  statistics_.run();
  return sums_.sum(places, {numbers(own_mean_), numbers(own_variance_)},
                   {numbers(mean_), numbers(variance_)}, over_ranks);
}

void RankStatistics::addToGradient(const Gradients& gradients, const SumOverRanks& over_ranks) {
  sums_.correction({.scale = numbers(gradients.scale_value),
                    .variance = numbers(variance_),
                    .own = {numbers(gradients.scale), numbers(gradients.shift)}},
                   {numbers(scale_), numbers(shift_)}, over_ranks);
  correct_.run();
  add_.run();
}

} // namespace rondo::training::onednn
