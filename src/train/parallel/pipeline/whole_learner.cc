// Implements StageLearner for stages that every rank holds whole, with a GradientReducer and an
// optimizer.
#include "rondo/gradients.h"
#include "train/loop/replica.h"
#include "train/parallel/bucket_lanes.h"
#include "train/parallel/groups.h"
#include "train/parallel/pipeline/learner.h"
#include "train/parallel/recipe.h"
#include "train/parallel/sharding/layout.h"

namespace rondo::training {

namespace {

class WholeLearner : public StageLearner {
 public:
  explicit WholeLearner(const LearnerSetup& setup)
      : stage_(setup.stage),
        groups_(setup.beside, setup.options.gradients.groups),
        reducer_(groups_.all(), parametersOf(stage_.weights()), reduction(setup.options)),
        optimizer_(makeOptimizer(setup.options.optimizer.name, stage_.weights(),
                                 optimizerSettings(setup.options))) {}

  void begin(Timeline* timeline) override {
    timeline_ = timeline;
    began_ = Clock::now();
    reducer_.begin();
  }
  float* gradient(std::size_t weight) const override {
    return static_cast<float*>(reducer_.gradient(weight));
  }
  void ready(std::size_t weight) override { reducer_.ready(weight); }
  void wait() override {
    reducer_.wait();
    if (timeline_) showBuckets(reducer_, began_, *timeline_);
  }

  void update(double learning_rate, float scale, double clip_limit,
              const SumOverShards& over_stages) override {
    const std::span<Weight* const> weights = stage_.weights();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i]->gradient = gradient(i);
    if (clip_limit > 0) scale = clip(weights, scale, clip_limit, over_stages).scale;
    optimizer_->step(learning_rate, scale);
    stage_.weightsChanged();
  }

  void settle() override {}
  std::vector<TensorMemory> gather() override {
    std::vector<TensorMemory> all;
    for (StateArray& one : optimizer_->state())
      all.push_back({{"optimizer." + one.name, one.shape}, one.values.data()});
    return all;
  }
  void adopt(std::uint64_t steps) override {
    optimizer_->setSteps(steps);
    stage_.weightsChanged();
  }

  std::uint64_t heldBytes() const override {
    std::size_t elements = 0;
    for (const Weight* weight : stage_.weights()) elements += onGrains(weight->size());
    for (const GradientBucket& bucket : reducer_.buckets()) elements += bucket.count;
    for (const StateArray& array : optimizer_->state()) elements += array.values.size();
    return elements * sizeof(float);
  }

 private:
  Stage& stage_;
  const Groups groups_;
  GradientReducer reducer_;
  const std::unique_ptr<Optimizer> optimizer_;
  Timeline* timeline_ = nullptr;
  Clock::time_point began_;
};

} // namespace

std::unique_ptr<StageLearner> wholeLearner(const LearnerSetup& setup) {
  return std::make_unique<WholeLearner>(setup);
}

} // namespace rondo::training
