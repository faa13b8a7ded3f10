// Batch norm by cuDNN. In training it uses the statistics of this rank's batch, or of all ranks'
// batches.
#include <optional>

#include "train/layers/cudnn/layer.h"
#include "train/layers/cudnn/rank_statistics.h"
#include "train/layers/cudnn/weights.h"

namespace rondo::training::cudnn {

namespace {

constexpr float kOne = 1, kZero = 0;
constexpr double kEpsilon = BatchNorm::kEpsilon;

/// The common part of training and evaluation: y = scale (x - mean) / deviation + shift, for each
/// channel.
class BatchNormLayer : public Layer {
 public:
  explicit BatchNormLayer(const Blueprint& from)
      : site_(from.site),
        node_(from.node),
        in_(from.in),
        scale_(site_, *node_.weights[0]),
        shift_(site_, *node_.weights[1]),
        as_(site_.description(node_.in, site_.binding().count)),
        channels_as_(site_.description({node_.in.channels, 1, 1}, 1)) {
    output_ = site_.tensor(node_.in);
  }

 protected:
  Site& site_;
  const Node& node_;
  Tensor in_;
  Upload scale_, shift_;
  Description as_, channels_as_;
};

class TrainingLayer : public BatchNormLayer {
 public:
  explicit TrainingLayer(const Blueprint& from)
      : BatchNormLayer(from),
        mean_(site_, *node_.state[0]),
        variance_(site_, *node_.state[1]),
        kept_mean_(site_.onDevice<float>(node_.in.channels)),
        kept_inverse_(site_.onDevice<float>(node_.in.channels)) {
    site_.reserve(RankStatistics::workspaceBytes(node_.in.channels));
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    gradient_ = gradient;
    made_scale_.emplace(site_, *node_.weights[0]);
    made_shift_.emplace(site_, *node_.weights[1]);
    back_ = site_.tensor(in_.shape); // cuDNN computes it in any case
    return wanted ? back_ : Tensor();
  }

  void forward(const Batch&, const Pass& pass) override {
    over_ranks_ = pass.sum_over_ranks ? &pass.sum_over_ranks : nullptr;
    if (over_ranks_) return forwardOverRanks();
    scale_.refresh();
    shift_.refresh();
    // With a factor of 1, cuDNN stores the statistics of this batch (with the unbiased variance) as
    // the running ones. It still multiplies the old running statistics by 0, so these must not be
    // NaN.
    clear(mean_);
    clear(variance_);
    check(cudnnBatchNormalizationForwardTraining(
              site_.dnn(), CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, as_.get(), in_.data, as_.get(),
              output_.data, channels_as_.get(), scale_.data(), shift_.data(), 1, mean_.data(),
              variance_.data(), kEpsilon, kept_mean_.get(), kept_inverse_.get()),
          "cudnnBatchNormalizationForwardTraining");
    // The unbiased variance of a single value would be 0 / 0.
    if (places() == 1) clear(variance_);
    mean_.depart();
    variance_.depart();
  }

  void backward(const GradientReady& ready) override {
    if (over_ranks_) return backwardOverRanks(ready);
    scale_.refresh();
    check(cudnnBatchNormalizationBackward(site_.dnn(), CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero,
                                          &kOne, &kZero, as_.get(), in_.data, as_.get(),
                                          gradient_.data, as_.get(), back_.data, channels_as_.get(),
                                          scale_.data(), made_scale_->data(), made_shift_->data(),
                                          kEpsilon, kept_mean_.get(), kept_inverse_.get()),
          "cudnnBatchNormalizationBackward");
    made_scale_->depart();
    made_shift_->depart();
  }

 private:
  std::size_t places() const { return site_.binding().count * node_.in.height * node_.in.width; }
  RankStatistics::Weights weights() const {
    return {node_.weights[0]->value, node_.weights[1]->value};
  }
  void clear(const Statistic& statistic) const {
    check(cudaMemsetAsync(statistic.data(), 0, node_.in.channels * sizeof(float), site_.stream()),
          "cudaMemsetAsync");
  }

  void forwardOverRanks() {
    if (!statistics_) statistics_.emplace(site_, in_);
    const std::size_t all = statistics_->forward(weights(), output_, *over_ranks_);
    takeStatistic(*node_.state[0], statistics_->mean());
    takeStatistic(*node_.state[1], statistics_->variance(), unbiased(all));
  }

  void backwardOverRanks(const GradientReady& ready) {
    const RankStatistics::Gradients own{node_.weights[0]->gradient, node_.weights[1]->gradient};
    statistics_->sumGradients(gradient_, own);
    site_.deliver(ready); // gradients of the layers after this one have arrived too
    statistics_->backward(weights(), own, gradient_, back_, *over_ranks_);
    for (const Weight* weight : node_.weights) ready(weight->number);
  }

  Statistic mean_, variance_;                ///< of this batch
  OnDevice<float> kept_mean_, kept_inverse_; ///< for the backward pass
  std::optional<Delivery> made_scale_, made_shift_;
  Tensor gradient_, back_;
  std::optional<RankStatistics> statistics_;
  const SumOverRanks* over_ranks_ = nullptr; ///< in the current pass
};

class EvaluationLayer : public BatchNormLayer {
 public:
  explicit EvaluationLayer(const Blueprint& from)
      : BatchNormLayer(from), mean_(site_, *node_.state[0]), variance_(site_, *node_.state[1]) {}

  Tensor buildBack(const Tensor&, bool) override { return {}; }
  void forward(const Batch&, const Pass&) override {
    for (Upload* upload : {&scale_, &shift_, &mean_, &variance_}) upload->refresh();
    check(cudnnBatchNormalizationForwardInference(
              site_.dnn(), CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, as_.get(), in_.data, as_.get(),
              output_.data, channels_as_.get(), scale_.data(), shift_.data(), mean_.data(),
              variance_.data(), kEpsilon),
          "cudnnBatchNormalizationForwardInference");
  }
  void backward(const GradientReady&) override {}

 private:
  Upload mean_, variance_; ///< running statistics
};

} // namespace

std::unique_ptr<Layer> build(const BatchNorm&, const Blueprint& from) {
  if (!from.site.binding().training) return std::make_unique<EvaluationLayer>(from);
  return std::make_unique<TrainingLayer>(from);
}

} // namespace rondo::training::cudnn
