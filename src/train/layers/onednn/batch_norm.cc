// Batch norm by oneDNN, with the ReLU after it. In training it uses the statistics of this rank's
// batch, or of all ranks' batches.
#include <optional>

#include "train/layers/onednn/describe.h"
#include "train/layers/onednn/layer.h"
#include "train/layers/onednn/rank_statistics.h"
#include "train/layers/onednn/weights.h"

namespace rondo::training::onednn {

namespace {

using Flags = dnnl::normalization_flags;

class BatchNormLayer : public Layer {
 public:
  explicit BatchNormLayer(const Blueprint& from)
      : site_(from.site), node_(from.node), relu_(from.relu), in_(from.in) {
    const Layout channels = plain({dimsOf(in_.get_desc())[1]});
    output_ = site_.tensor(in_.get_desc(), Lifetime::forward);
    scale_.emplace(site_, *node_.weights[0], channels, channels);
    shift_.emplace(site_, *node_.weights[1], channels, channels);
    if (site_.binding().training) buildTraining(channels);
    else buildEvaluation(channels);
  }

  Tensor buildBack(const Tensor& gradient, bool) override {
    const Layout layout = in_.get_desc(), channels = plain({dimsOf(layout)[1]});
    const Converted given(site_, gradient, layout, Lifetime::passing);
    convert_ = given.convert;
    result_ = site_.tensor(layout, Lifetime::passing);
    made_scale_.emplace(site_, *node_.weights[0], channels, channels);
    made_shift_.emplace(site_, *node_.weights[1], channels, channels);
    back_arguments_ = {{DNNL_ARG_SRC, in_},
                       {DNNL_ARG_MEAN, mean_},
                       {DNNL_ARG_VARIANCE, variance_},
                       {DNNL_ARG_SCALE, scale_->tensor()},
                       {DNNL_ARG_DIFF_DST, given.tensor},
                       {DNNL_ARG_DIFF_SRC, result_},
                       {DNNL_ARG_DIFF_SCALE, made_scale_->tensor()},
                       {DNNL_ARG_DIFF_SHIFT, made_shift_->tensor()}};
    if (kBackwardTakesShift) back_arguments_.emplace_back(DNNL_ARG_SHIFT, shift_->tensor());
    if (relu_) back_arguments_.emplace_back(DNNL_ARG_WORKSPACE, kept_);
    back_ = backOf(description_, Flags::none);
    return result_;
  }

  void forward(const Batch&, const Pass& pass) override {
    scale_->refresh();
    shift_->refresh();
    if (!mean_weight_) {
      synchronised_ = pass.sum_over_ranks ? &pass.sum_over_ranks : nullptr;
      if (!synchronised_) forward_.run();
      return moveRunning(synchronised_ ? forwardOverRanks() : places());
    }
    mean_weight_->refresh();
    variance_weight_->refresh();
    forward_.run();
  }

  void backward(const GradientReady& ready) override {
    convert_.run();
    made_scale_->aim();
    made_shift_->aim();
    if (synchronised_) backwardOverRanks();
    else back_.run();
    for (const Weight* weight : node_.weights) ready(weight->number);
  }

 private:
  std::size_t places() const { return site_.binding().count * node_.in.height * node_.in.width; }

  dnnl::batch_normalization_forward::primitive_desc forwardOf(Flags more) const {
    const auto kind = site_.binding().training ? dnnl::prop_kind::forward_training
                                               : dnnl::prop_kind::forward_inference;
    const Layout layout = in_.get_desc();
    return describe<dnnl::batch_normalization_forward>({site_.engine(), attributes()}, kind, layout,
                                                       since3(layout), BatchNorm::kEpsilon,
                                                       flags(more));
  }

  Flags flags(Flags more) const {
    return Flags::use_scale | Flags::use_shift | more |
           (relu_ ? Flags::fuse_norm_relu : Flags::none);
  }

  Op backOf(const dnnl::batch_normalization_forward::primitive_desc& forward, Flags more) const {
    const Layout layout = in_.get_desc();
    const auto description = describeBack<dnnl::batch_normalization_backward>(
        {site_.engine(), attributes()}, forward, dnnl::prop_kind::backward, layout, since3(layout),
        layout, BatchNorm::kEpsilon, flags(more));
    return Op::of<dnnl::batch_normalization_backward>(site_, description, back_arguments_);
  }

  Arguments forwardArguments() const {
    Arguments arguments = {{DNNL_ARG_SRC, in_},
                           {DNNL_ARG_MEAN, mean_},
                           {DNNL_ARG_VARIANCE, variance_},
                           {DNNL_ARG_SCALE, scale_->tensor()},
                           {DNNL_ARG_SHIFT, shift_->tensor()},
                           {DNNL_ARG_DST, output_}};
    if (kept_) arguments.emplace_back(DNNL_ARG_WORKSPACE, kept_);
    return arguments;
  }

  void buildTraining(const Layout& channels) {
    mean_ = site_.tensor(channels, Lifetime::kept);
    variance_ = site_.tensor(channels, Lifetime::kept);
    description_ = forwardOf(Flags::none);
    if (relu_) kept_ = site_.tensor(description_.workspace_desc(), Lifetime::kept);
    forward_ = Op::of<dnnl::batch_normalization_forward>(site_, description_, forwardArguments());
  }

  void buildEvaluation(const Layout& channels) {
    mean_weight_.emplace(site_, *node_.state[0], channels, channels);
    variance_weight_.emplace(site_, *node_.state[1], channels, channels);
    mean_ = mean_weight_->tensor();
    variance_ = variance_weight_->tensor();
    forward_ = Op::of<dnnl::batch_normalization_forward>(site_, forwardOf(Flags::use_global_stats),
                                                         forwardArguments());
  }

  /// Returns the number of places of all ranks.
  std::size_t forwardOverRanks() {
    if (!over_ranks_) {
      const auto lock = making();
      const auto given = forwardOf(Flags::use_global_stats);
      over_ranks_.emplace(site_, in_, result_, mean_, variance_);
      forward_given_ = Op::of<dnnl::batch_normalization_forward>(site_, given, forwardArguments());
      back_given_ = backOf(given, Flags::use_global_stats);
    }
    const std::size_t all = over_ranks_->sum(places(), *synchronised_);
    forward_given_.run();
    return all;
  }

  /// oneDNN treats given statistics as constants. The missing part of the gradient is added.
  void backwardOverRanks() {
    back_given_.run();
    over_ranks_->addToGradient({scale_->tensor(), made_scale_->tensor(), made_shift_->tensor()},
                               *synchronised_);
  }

  /// Updates the running statistics from a batch of `all` places; the running variance is the
  /// unbiased one.
  void moveRunning(std::size_t all) const {
    takeStatistic(*node_.state[0], static_cast<const float*>(mean_.get_data_handle()));
    takeStatistic(*node_.state[1], static_cast<const float*>(variance_.get_data_handle()),
                  unbiased(all));
  }

  Site& site_;
  const Node& node_;
  bool relu_;
  Tensor in_, mean_, variance_, kept_, result_;
  std::optional<Packed> scale_, shift_;
  std::optional<Packed> mean_weight_, variance_weight_; ///< in evaluation only
  std::optional<Unpacked> made_scale_, made_shift_;
  dnnl::batch_normalization_forward::primitive_desc description_;
  Arguments back_arguments_;
  Op forward_, convert_, back_, forward_given_, back_given_;
  std::optional<RankStatistics> over_ranks_;
  const SumOverRanks* synchronised_ = nullptr; ///< in the current pass; null: no sums over ranks
};

} // namespace

std::unique_ptr<Layer> build(const BatchNorm&, const Blueprint& from) {
  return std::make_unique<BatchNormLayer>(from);
}

} // namespace rondo::training::onednn
