// Implements StageLearner with an optimizer that is sharded between the ranks along the axis shard,
// with a sharded model for each part of the stage.
#include <algorithm>
#include <deque>
#include <optional>

#include "train/parallel/pipeline/learner.h"
#include "train/parallel/recipe.h"
#include "train/parallel/sharding/model.h"

namespace rondo::training {

namespace {

class ShardedLearner : public StageLearner {
 public:
  explicit ShardedLearner(const LearnerSetup& setup);

  void begin(Timeline* timeline) override;
  float* gradient(std::size_t weight) const override { return gradients_[weight]; }
  void ready(std::size_t weight) override;
  void wait() override {
    for (Part& part : parts_) part.model->endBackward();
  }
  void update(double learning_rate, float scale, double clip_limit,
              const SumOverShards& over_stages) override;

  void settle() override {
    for (Part& part : parts_) part.model->beginEvaluation();
  }
  std::vector<TensorMemory> gather() override;
  void adopt(std::uint64_t steps) override;

  std::uint64_t heldBytes() const override {
    std::uint64_t bytes = 0;
    for (const Part& part : parts_) bytes += part.model->held().total();
    return bytes;
  }

 private:
  /// Each part has its own communicators. When the gradients go from the shards to the replicas
  /// depends on timing, so two parts that shared a communicator could call in different orders on
  /// different ranks.
  struct Part {
    std::size_t first_weight; ///< index of its first weight among those of the stage
    Communicator shards;
    std::optional<Communicator> replicas;
    std::unique_ptr<ShardedModel> model;
  };

  std::deque<Part> parts_;
  std::vector<float*> gradients_;           ///< gradient memory of each weight of the stage
  std::deque<AlignedVector<float>> arrays_; ///< the optimizer arrays, whole, from the last gather()
};

ShardedLearner::ShardedLearner(const LearnerSetup& setup) {
  const TrainOptions& options = setup.options;
  const ShardSettings settings{.level = ShardLevel::optimizer,
                               .unit_bytes = options.gradients.bucket_bytes,
                               .optimizer = options.optimizer.name,
                               .optimizer_settings = optimizerSettings(options),
                               .overlap = options.gradients.overlap};
  for (std::size_t number = 0; number < setup.stage.parts(); ++number) {
    Part& part = parts_.emplace_back(
        Part{gradients_.size(), setup.mesh.split(setup.comm, {Axis::shard}), {}, nullptr});
    if (setup.mesh.size(Axis::data) > 1) part.replicas = setup.mesh.split(setup.comm, {Axis::data});
    Network& network = setup.stage.network(number);
    part.model = std::make_unique<ShardedModel>(
        part.shards, part.replicas ? &*part.replicas : nullptr, network, options.seed, settings);
    for (const Weight* weight : network.weights()) gradients_.push_back(weight->gradient);
  }
}

/// The stage adds up its micro-batches in the gradient memory: for the sharded model a step is one
/// pass.
void ShardedLearner::begin(Timeline* timeline) {
  arrays_.clear();
  for (Part& part : parts_) {
    part.model->observe(timeline);
    part.model->beginForward();
    part.model->beginBackward();
  }
}

void ShardedLearner::ready(std::size_t weight) {
  const auto next_part = std::find_if(parts_.begin(), parts_.end(), [weight](const Part& part) {
    return part.first_weight > weight;
  });
  const Part& part = *std::prev(next_part);
  part.model->gradientReady(weight - part.first_weight);
}

void ShardedLearner::update(double learning_rate, float scale, double clip_limit,
                            const SumOverShards& over_stages) {
  if (clip_limit > 0) {
    std::vector<Weight*> pieces;
    for (Part& part : parts_) {
      const std::vector<Weight*> own = part.model->pieces();
      pieces.insert(pieces.end(), own.begin(), own.end());
    }
    scale = clip(pieces, scale, clip_limit, [&](std::span<double> sums) {
              parts_.front().shards.allReduce(sums.data(), sums.data(), sums.size(),
                                              DataType::float64, ReduceOp::sum);
              over_stages(sums);
            }).scale;
  }
  for (Part& part : parts_) part.model->update(learning_rate, scale, 0);
}

std::vector<TensorMemory> ShardedLearner::gather() {
  arrays_.clear();
  std::vector<TensorMemory> all;
  for (Part& part : parts_)
    for (const ShardedArray& array : part.model->arrays()) {
      if (!array.name.starts_with("optimizer.")) continue; // every rank has the whole weights
      const TensorLabel label{array.name, array.shape};
      float* const whole = arrays_.emplace_back(label.bytes() / sizeof(float)).data();
      part.shards.allGatherv(array.own.data(), array.own.size(), whole,
                             {array.counts, array.offsets}, DataType::float32);
      all.push_back({label, whole});
    }
  return all;
}

void ShardedLearner::adopt(std::uint64_t steps) {
  auto from = arrays_.begin();
  for (Part& part : parts_) {
    const auto rank = static_cast<std::size_t>(part.shards.rank());
    for (const ShardedArray& array : part.model->arrays())
      if (array.name.starts_with("optimizer."))
        std::copy_n((from++)->data() + array.offsets[rank], array.own.size(), array.own.data());
    part.model->optimizer().setSteps(steps);
    part.model->publish();
  }
}

} // namespace

std::unique_ptr<StageLearner> shardedLearner(const LearnerSetup& setup) {
  return std::make_unique<ShardedLearner>(setup);
}

} // namespace rondo::training
