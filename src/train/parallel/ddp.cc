// Strategy ddp: bulk-synchronous data parallelism. Each rank runs its micro-batches forward and
// backward. The gradients are all-reduced in buckets during the backward pass. Then every rank
// takes the same optimizer step.
//
//   sent         when
//   buckets      AllReduce of each one as soon as the backward pass has filled it
//   2 sums       AllReduce of loss and stop flag during the last backward pass, and one of the
//                statistics of batch norms; with --noise-scale a third after that pass
//   batch norms  AllReduce of the sums of each batch norm within the passes, with --sync-batch-norm
//
// With M bytes of gradients (or of the hook's output) N ranks send 2 (N-1) M bytes in a step, each
// rank 2 (N-1)/N M. The output of topk is gathered, not added up: N (N-1) M. Every rank holds all
// parameters, gradients and optimizer state. With --groups G the buckets use G communicators in
// turn (groups.h): the same bytes, but G buckets are sent at the same time.
//
// Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, 2020. This is
// the bulk-synchronous parallel scheme: w' = w - rate * (mean over the ranks of their mean
// gradients).
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "rondo/gradients.h"
#include "train/add.h"
#include "train/loop/elastic.h"
#include "train/loop/hooks.h"
#include "train/loop/settings.h"
#include "train/optim/norm.h"
#include "train/parallel/bucket_lanes.h"
#include "train/parallel/finite.h"
#include "train/parallel/groups.h"
#include "train/parallel/own_arrays.h"
#include "train/parallel/recipe.h"
#include "train/parallel/samples.h"
#include "train/parallel/sharding/memory.h"
#include "train/parallel/step_sums.h"
#include "train/parallel/whole_model.h"

namespace rondo::training::parallel {

namespace {

GradientOptions reduction(const TrainOptions& options, std::shared_ptr<GradientHook> hook) {
  GradientOptions to = training::reduction(options);
  to.hook = std::move(hook);
  return to;
}

class Ddp : public Strategy {
 public:
  explicit Ddp(const Setup& setup);

  StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) override;
  std::uint64_t verify(const std::string& when) override { return model_.verify(when); }
  double evaluate() override { return model_.evaluate(); }
  Snapshot snapshot() override;
  void adopt(const Position& at) override;
  std::vector<StatePart> held() override { return model_.parts(*optimizer_); }
  double bytesPerStep() const override;
  void tell(TrainReport& report) override;

 private:
  std::size_t firstPart() const {
    return static_cast<std::size_t>(comm_.rank()) * static_cast<std::size_t>(options_.accumulate);
  }
  void prepareNext(const Position& done);
  void computeGradients(const Position& done, StepClock& clock);
  void forward(const Batch& batch, const Pass& pass);
  void contributeZeros();
  void aim(bool first);
  void gradientStands(std::size_t weight);
  GradientNoise noise();
  void update(double learning_rate);

  Communicator& comm_;
  const TrainOptions& options_;
  WholeModel model_;
  Replica& replica_;
  const int epoch_steps_;
  const std::int64_t total_steps_;
  Samples samples_;
  const std::shared_ptr<GradientHook> hook_; ///< null: none
  const Groups groups_;
  GradientReducer reducer_;
  const std::unique_ptr<Optimizer> optimizer_;
  const Schedule schedule_;
  const GradientReady ready_;
  std::optional<OwnArrays> kept_; ///< state of the hooks of all ranks, from the last snapshot
  int count_ = 0;                 ///< samples of the current step, over all ranks
  int micro_ = 0;                 ///< the current micro-batch
  std::vector<AlignedVector<float>> part_; ///< gradients of a micro-batch after the first
  StepSums sums_;
  double squares_ = 0; ///< sum of the squared norms of the gradients of this rank's micro-batches
  Clock::time_point reducing_; ///< when the reducer's step began
  std::string layer_; ///< the first layer with a value that is not finite; "" if there is none
};

std::size_t parts(const Setup& setup) {
  return static_cast<std::size_t>(setup.comm.size()) *
         static_cast<std::size_t>(setup.options.accumulate);
}

/// Refuses synchronized batch norm if a step can leave a rank without samples, also when an elastic
/// run has grown: such a rank runs no layers, and the others would wait for its sums.
void requireStatistics(const Setup& setup, Samples& samples) {
  const TrainOptions& options = setup.options;
  const std::size_t rest = samples.count(1, epochSteps(options, setup.data) - 1);
  const std::int64_t parts =
      std::int64_t{rankLimits(options, setup.comm.size()).second} * options.accumulate;
  if (!options.sync_batch_norm || static_cast<std::int64_t>(rest) >= parts) return;
  throw Error(ErrorCode::invalid_argument,
              "train: sync_batch_norm with remainder uneven: the last step of an epoch has " +
                  std::to_string(rest) + (rest == 1 ? " sample, but " : " samples, but ") +
                  std::to_string(parts) + " micro-batches" +
                  (options.elastic.ranks.empty() ? "" : " (with MAX ranks of elastic)") +
                  "; each needs at least one sample");
}

Ddp::Ddp(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      model_(setup),
      replica_(model_.replica()),
      epoch_steps_(epochSteps(options_, setup.data)),
      total_steps_(totalSteps(options_, setup.data)),
      samples_(options_, setup.data, parts(setup)),
      hook_(makeHook(options_.gradients.hook)),
      groups_(comm_, options_.gradients.groups),
      reducer_(groups_.all(), parametersOf(replica_.weights()), reduction(options_, hook_)),
      optimizer_(
          makeOptimizer(options_.optimizer.name, replica_.weights(), optimizerSettings(options_))),
      schedule_(schedule(options_, total_steps_)),
      ready_([this](std::size_t weight) { gradientStands(weight); }),
      sums_(comm_, options_, replica_.statistics()) {
  requireFits("ddp",
              wholeMemory(shardLayout(sizesOf(replica_.network().nodes()), 1, kEachLayer),
                          optimizerKind(options_.optimizer.name).arrays, options_.accumulate > 1),
              options_.sharding.memory_limit);
  requireStatistics(setup, samples_);
  if (options_.accumulate == 1) return;
  for (const Weight* weight : replica_.weights()) part_.emplace_back(weight->size());
}

StepResult Ddp::run(const Position& done, std::int64_t, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  count_ = static_cast<int>(samples_.count(done.epoch, done.step));
  sums_.begin();
  layer_.clear();
  StepClock clock(result.times, timeline);
  computeGradients(done, clock);
  prepareNext(done);
  clock.lap(&TrainTimes::data, nullptr);
  reducer_.wait();
  sums_.wait();
  clock.lap(&TrainTimes::communication, nullptr);
  if (timeline) showBuckets(reducer_, reducing_, *timeline);
  if (options_.gradients.noise_scale) result.noise = noise();
  requireFinite(comm_, sums_.loss(), done.total + 1, layer_);
  result.learning_rate = rateAt(schedule_, static_cast<std::uint64_t>(done.total));
  update(result.learning_rate);
  clock.lap(&TrainTimes::optimizer, "optimizer");
  result.loss = sums_.loss() / count_;
  result.at = after(done, result.loss, static_cast<double>(count_) / options_.batch);
  result.stop = sums_.stop();
  result.times.step = whole.read();
  return result;
}

/// Fills the reducer with the sums over this rank's micro-batches. They are added from the first to
/// the last, and the reduction adds ranks in the same order: one micro-batch on each of N ranks
/// gives the same sum as N micro-batches on one rank.
void Ddp::computeGradients(const Position& done, StepClock& clock) {
  const Pass pass = passOf(options_, done.total, comm_);
  for (micro_ = 0; micro_ < options_.accumulate; ++micro_) {
    aim(micro_ == 0);
    const Batch batch =
        samples_.load(done.epoch, done.step, firstPart() + static_cast<std::size_t>(micro_));
    clock.lap(&TrainTimes::data, "data");
    forward(batch, pass);
    sums_.addStatistics(micro_ == 0);
    clock.lap(&TrainTimes::forward, "forward");
    if (micro_ + 1 == options_.accumulate) {
      sums_.send();
      reducing_ = Clock::now();
      reducer_.begin();
    }
    if (batch.count > 0) replica_.network().backward(ready_);
    else contributeZeros();
    clock.lap(&TrainTimes::backward, "backward");
  }
}

void Ddp::forward(const Batch& batch, const Pass& pass) {
  if (batch.count == 0) {
    std::ranges::fill(replica_.statistics(), 0.0F);
    return;
  }
  const double loss = replica_.network().forward(batch, pass);
  sums_.addLoss(loss);
  if (!std::isfinite(loss) && layer_.empty()) layer_ = replica_.network().firstNotFinite();
}

/// Replaces the backward pass if this rank has no samples: the other ranks wait for its buckets.
void Ddp::contributeZeros() {
  const auto weights = replica_.weights();
  for (std::size_t i = weights.size(); i-- > 0;) {
    std::fill_n(weights[i]->gradient, weights[i]->size(), 0.0F);
    ready_(i);
  }
}

/// Loads the first batch of the next step while buckets are in flight and other ranks still
/// compute. The backward pass has ended, so this step's batch is no longer needed. A single rank
/// skips this: it has nothing to wait for, and its gradients are still in the cache.
void Ddp::prepareNext(const Position& done) {
  if (comm_.size() == 1 || done.total + 1 >= total_steps_) return;
  const bool ends = done.step + 1 == epoch_steps_;
  samples_.prepare(done.epoch + (ends ? 1 : 0), ends ? 0 : done.step + 1, firstPart());
}

/// The first micro-batch writes its gradients into the buckets, the others into part_.
void Ddp::aim(bool first) {
  const auto weights = replica_.weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i]->gradient = first ? static_cast<float*>(reducer_.gradient(i)) : part_[i].data();
}

void Ddp::gradientStands(std::size_t weight) {
  if (options_.gradients.noise_scale) {
    const Weight& one = *replica_.weights()[weight];
    squares_ += squaredNorm(one.gradient, one.size());
  }
  if (micro_ > 0)
    add(static_cast<float*>(reducer_.gradient(weight)), part_[weight].data(), part_[weight].size());
  if (micro_ + 1 < options_.accumulate) return;
  if (hook_ && count_ < options_.batch) {
    const std::span gradient(static_cast<float*>(reducer_.gradient(weight)),
                             replica_.weights()[weight]->size());
    const float larger = static_cast<float>(options_.batch) / static_cast<float>(count_);
    for (float& value : gradient) value *= larger;
  }
  reducer_.ready(weight);
}

/// Compares the gradients of the micro-batches with the gradient of the whole batch. Skips a step
/// with fewer samples: its micro-batches have different sizes, and some may be empty.
GradientNoise Ddp::noise() {
  if (count_ < options_.batch) return squares_ = 0, GradientNoise();
  comm_.allReduce(&squares_, &squares_, 1, DataType::float64, ReduceOp::sum);
  double whole = 0;
  for (std::size_t i = 0; i < replica_.weights().size(); ++i)
    whole +=
        squaredNorm(static_cast<const float*>(reducer_.gradient(i)), replica_.weights()[i]->size());
  const double batch = options_.batch, parts = static_cast<double>(samples_.parts());
  const double few = batch / parts;
  return gradientNoise(std::exchange(squares_, 0) / (parts * few * few), few,
                       whole / (batch * batch), batch);
}

/// Hooks keep state in the scale of a whole batch, so gradientStands() has scaled the gradients of
/// a smaller batch up to it.
void Ddp::update(double learning_rate) {
  aim(true);
  float scale = 1.0F / static_cast<float>(hook_ ? options_.batch : count_);
  if (options_.optimizer.clip > 0)
    scale = clip(replica_.weights(), scale, options_.optimizer.clip).scale;
  optimizer_->step(learning_rate, scale);
  if (!replica_.state().empty()) replica_.network().moveState(static_cast<std::size_t>(count_));
  replica_.network().weightsChanged();
}

Snapshot Ddp::snapshot() {
  std::vector<OwnArray> own;
  if (hook_)
    for (const GradientHookArray& one : hook_->state(reducer_.buckets()))
      own.push_back({"hook." + one.name, one.values});
  kept_.emplace(comm_, std::move(own));
  kept_->gather();
  Snapshot all{.tensors = model_.tensors(*optimizer_), .ranks = kept_->any() ? comm_.size() : 0};
  kept_->describe(all.tensors);
  return all;
}

void Ddp::adopt(const Position& at) {
  optimizer_->setSteps(static_cast<std::uint64_t>(at.total));
  model_.broadcast(model_.tensors(*optimizer_));
  kept_->scatter();
}

double Ddp::bytesPerStep() const {
  const GradientStatistics sent = reducer_.statistics();
  const double bytes =
      sent.steps == 0 ? 0 : static_cast<double>(sent.bytes) / static_cast<double>(sent.steps);
  const double times = hook_ && hook_->gathers() ? comm_.size() : 2.0;
  return times * (comm_.size() - 1) * bytes;
}

void Ddp::tell(TrainReport& report) {
  std::size_t elements = 0;
  for (const Weight* weight : replica_.weights()) elements += onGrains(weight->size());
  for (const GradientBucket& bucket : reducer_.buckets()) elements += bucket.count;
  for (const AlignedVector<float>& part : part_) elements += part.size();
  for (const StateArray& array : optimizer_->state()) elements += array.values.size();
  report.held_bytes = elements * sizeof(float);
}

} // namespace

extern const StrategyKind ddp;
const StrategyKind ddp{
    .name = "ddp",
    .summary = "each rank has the whole model; gradients are all-reduced during the backward pass",
    .check =
        [](const TrainOptions& options, int ranks) {
          const std::int64_t parts = std::int64_t{ranks} * options.accumulate;
          requireParts(options, parts, "ranks x accumulate");
          if (options.gradients.noise_scale && parts < 2)
            throw Error(
                ErrorCode::invalid_argument,
                "train: noise_scale needs 2 or more micro-batches, but ranks x accumulate is 1");
          const std::string& hook = options.gradients.hook;
          if (options.gradients.noise_scale && hook != "none" && hook != "fp16" && hook != "bf16")
            throw Error(ErrorCode::invalid_argument,
                        "train: noise_scale needs the gradient of each step, but hook " + hook +
                            " keeps a part of it for later steps: use hook none, fp16 or bf16");
        },
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<Ddp>(setup);
    },
};

} // namespace rondo::training::parallel
