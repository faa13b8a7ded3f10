// Data parallel, bulk-synchronous: micro-batches forward and back, their gradients reduced in
// buckets meanwhile, then the same step of the optimizer on every rank.
//
//   sent     when
//   buckets  AllReduce of each as soon as the backward pass has filled it
//   2 sums   AllReduce of loss and stop flag beside the last backward pass, and of the statistics
//            of batch norms; with --noise-scale a third, behind it
//   batch    AllReduce of each batch norm's sums within the passes, with --sync-batch-norm
//   norms
//
// With M bytes of gradients (or of what the hook makes of them) N ranks send 2 (N-1) M bytes in a
// step, each 2 (N-1)/N M. What topk makes of them is gathered, not added up: N (N-1) M. Every rank
// holds parameters, gradients and optimizer whole. With --groups G the buckets take G communicators
// in turn (groups.h): the same bytes, G of them on their way.
//
// Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, 2020; BSP of
// the lectures: w' = w - rate * (mean over the ranks of their mean gradients).
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "rondo/detail/hash.h"
#include "rondo/gradients.h"
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
#include "train/parallel/whole_model.h"

namespace rondo::training::parallel {

namespace {

/// Sums, since they are scaled behind the reduction. The order in which gradients come is known:
/// buckets formed anew after the first step would end what hooks keep, and a run that is resumed
/// would have others than one that was not.
GradientOptions reduction(const TrainOptions& options, std::shared_ptr<GradientHook> hook) {
  GradientOptions to;
  to.average = false;
  to.follow_observed_order = false;
  to.bucket_bytes = options.bucket_bytes;
  to.overlap = options.overlap;
  to.hook = std::move(hook);
  return to;
}

void add(float* to, const float* from, std::size_t count) {
  std::transform(to, to + count, from, to, std::plus<>());
}

class Ddp : public Strategy {
 public:
  explicit Ddp(const Setup& setup);
  /// Where an exception has left a step it aborts the communicator, and returns when nothing of the
  /// step is on its way.
  ~Ddp() override;

  StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) override;
  std::uint64_t verify(const std::string& when) override { return model_.verify(when); }
  double evaluate() override { return model_.evaluate(); }
  Snapshot snapshot() override;
  void adopt(const Position& at) override;
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
  void addStatistics();
  void aim(bool first);
  void sendSums();
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
  std::optional<OwnArrays> kept_;          ///< by the hooks of all ranks, of the last snapshot
  int count_ = 0;                          ///< samples of the step at work, over all ranks
  int micro_ = 0;                          ///< the micro-batch at work
  std::vector<AlignedVector<float>> part_; ///< gradients of a micro-batch behind the first
  AlignedVector<float> statistics_;        ///< sums of those that came before
  /// Over this rank's samples; over all ranks' when sent_ is done.
  struct Sums {
    double loss, stops;
  } sums_{};
  double squares_ = 0; ///< of the norms of this rank's micro-batches' gradients
  Work sent_, statistics_sent_;
  Clock::time_point reducing_; ///< when the reducer's step began
  std::string layer_;          ///< the first that gave what is not finite; "": none
};

std::size_t parts(const Setup& setup) {
  return static_cast<std::size_t>(setup.comm.size()) *
         static_cast<std::size_t>(setup.options.accumulate);
}

/// Sums of batch norm over the ranks would wait for one without samples, which runs no layers.
void requireStatistics(const TrainOptions& options, Samples& samples, const Data& data) {
  const std::size_t rest = samples.count(1, epochSteps(options, data) - 1);
  if (!options.sync_batch_norm || rest >= samples.parts()) return;
  throw Error(ErrorCode::invalid_argument,
              "train: sync_batch_norm with remainder uneven: the last step of an epoch has " +
                  std::to_string(rest) + " samples for " + std::to_string(samples.parts()) +
                  " micro-batches, and each must have one");
}

Ddp::Ddp(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      model_(setup),
      replica_(model_.replica()),
      epoch_steps_(epochSteps(options_, setup.data)),
      total_steps_(totalSteps(options_, setup.data)),
      samples_(options_, setup.data, parts(setup)),
      hook_(makeHook(options_.hook)),
      groups_(comm_, options_.groups),
      reducer_(groups_.all(), replica_.parameters(), reduction(options_, hook_)),
      optimizer_(
          makeOptimizer(options_.optimizer, replica_.weights(), optimizerSettings(options_))),
      schedule_(schedule(options_, total_steps_)),
      ready_([this](std::size_t weight) { gradientStands(weight); }) {
  requireFits("ddp",
              wholeMemory(shardLayout(sizesOf(replica_.network().nodes()), 1, kEachLayer),
                          optimizerKind(options_.optimizer).arrays, options_.accumulate > 1),
              options_.memory_limit);
  requireStatistics(options_, samples_, setup.data);
  if (options_.accumulate == 1) return;
  for (const Weight* weight : replica_.weights()) part_.emplace_back(weight->size());
  statistics_.resize(replica_.statistics().size());
}

/// Works on their way use sums_, and the replica's statistics.
Ddp::~Ddp() {
  for (Work* work : {&sent_, &statistics_sent_}) {
    try {
      if (work->test()) continue;
      comm_.abort("train: a step was left by an exception");
      work->waitFor(std::chrono::seconds(10));
    } catch (const std::exception&) { // how it ended is of no interest
    }
  }
}

StepResult Ddp::run(const Position& done, std::int64_t, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  count_ = static_cast<int>(samples_.count(done.epoch, done.step));
  sums_ = {0, options_.stop && options_.stop() ? 1.0 : 0.0};
  layer_.clear();
  StepClock clock(result.times, timeline);
  computeGradients(done, clock);
  prepareNext(done);
  clock.lap(&TrainTimes::data, nullptr);
  reducer_.wait();
  sent_.wait();
  statistics_sent_.wait();
  clock.lap(&TrainTimes::communication, nullptr);
  if (timeline) showBuckets(reducer_, reducing_, *timeline);
  if (options_.noise_scale) result.noise = noise();
  requireFinite(comm_, sums_.loss, done.total + 1, layer_);
  result.learning_rate = rateAt(schedule_, static_cast<std::uint64_t>(done.total));
  update(result.learning_rate);
  clock.lap(&TrainTimes::optimizer, "optimizer");
  result.loss = sums_.loss / count_;
  result.at = after(done, result.loss, static_cast<double>(count_) / options_.batch);
  result.stop = sums_.stops > 0;
  result.times.step = whole.read();
  return result;
}

/// The reducer gets the sums over this rank's micro-batches. They go from left to right, and so
/// does the rank-order reduction: one micro-batch each on N ranks, or N on one rank, is the same
/// sum.
void Ddp::computeGradients(const Position& done, StepClock& clock) {
  const auto number = static_cast<std::uint64_t>(done.total);
  Pass pass{.seed = detail::mix(options_.seed + detail::mix(number)), .sum_over_ranks = {}};
  if (options_.sync_batch_norm)
    pass.sum_over_ranks = [this](float* values, std::size_t count) {
      comm_.allReduce(values, values, count, DataType::float32, ReduceOp::sum);
    };
  for (micro_ = 0; micro_ < options_.accumulate; ++micro_) {
    aim(micro_ == 0);
    const Batch batch =
        samples_.load(done.epoch, done.step, firstPart() + static_cast<std::size_t>(micro_));
    clock.lap(&TrainTimes::data, "data");
    forward(batch, pass);
    addStatistics();
    clock.lap(&TrainTimes::forward, "forward");
    if (micro_ + 1 == options_.accumulate) sendSums();
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
  sums_.loss += loss;
  if (!std::isfinite(loss) && layer_.empty()) layer_ = replica_.network().firstNotFinite();
}

/// In place of a pass back of no samples: the other ranks' buckets wait for this one's.
void Ddp::contributeZeros() {
  const auto weights = replica_.weights();
  for (std::size_t i = weights.size(); i-- > 0;) {
    std::fill_n(weights[i]->gradient, weights[i]->size(), 0.0F);
    ready_(i);
  }
}

/// The next step's first batch is made while buckets are on their way and other ranks still
/// compute: the pass back is over, so nobody needs this step's. A rank alone has nothing to wait
/// for, and its gradients are still in the cache.
void Ddp::prepareNext(const Position& done) {
  if (comm_.size() == 1 || done.total + 1 >= total_steps_) return;
  const bool ends = done.step + 1 == epoch_steps_;
  samples_.prepare(done.epoch + (ends ? 1 : 0), ends ? 0 : done.step + 1, firstPart());
}

/// Running statistics move once a step, by the mean over all micro-batches: the sum of the batches'
/// own is built as that of the gradients is.
void Ddp::addStatistics() {
  const std::span<float> own = replica_.statistics();
  if (options_.accumulate == 1 || own.empty()) return;
  if (micro_ > 0) add(own.data(), statistics_.data(), own.size());
  std::copy(own.begin(), own.end(), statistics_.begin());
}

/// Lets the first micro-batch write into the buckets, the others beside them.
void Ddp::aim(bool first) {
  const auto weights = replica_.weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i]->gradient = first ? static_cast<float*>(reducer_.gradient(i)) : part_[i].data();
}

/// Loss and statistics are complete before the last backward pass, and travel while it goes on.
void Ddp::sendSums() {
  static_assert(sizeof sums_ == 2 * sizeof(double));
  sent_ = comm_.allReduceAsync(&sums_, &sums_, 2, DataType::float64, ReduceOp::sum);
  const std::span<float> statistics = replica_.statistics();
  if (!statistics.empty()) {
    statistics_sent_ = comm_.allReduceAsync(statistics.data(), statistics.data(), statistics.size(),
                                            DataType::float32, ReduceOp::sum);
  }
  reducing_ = Clock::now();
  reducer_.begin();
}

void Ddp::gradientStands(std::size_t weight) {
  if (options_.noise_scale) {
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

/// Of micro-batches on one side, whose gradients are sums over a part of the batch, and of the
/// whole batch on the other. Micro-batches of a shorter step are of several sizes, some empty.
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

/// What hooks keep is of sums over a whole batch, so they get those of a smaller step as large.
void Ddp::update(double learning_rate) {
  aim(true);
  float scale = 1.0F / static_cast<float>(hook_ ? options_.batch : count_);
  if (options_.clip > 0) scale = clip(replica_.weights(), scale, options_.clip).scale;
  optimizer_->step(learning_rate, scale);
  if (!replica_.state().empty())
    replica_.network().moveState(std::min(samples_.parts(), static_cast<std::size_t>(count_)));
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
    .summary = "each rank the whole model; gradients are all-reduced beside the backward pass",
    .takes = {"uneven remainder", "accumulate", "sync_batch_norm", "clip", "bucket_bytes",
              "overlap", "groups", "hook", "memory_limit", "noise_scale"},
    .check =
        [](const TrainOptions& options, int ranks) {
          const std::int64_t parts = std::int64_t{ranks} * options.accumulate;
          requireParts(options, parts, "ranks x accumulate");
          if (options.noise_scale && parts < 2)
            throw Error(ErrorCode::invalid_argument,
                        "train: noise_scale compares micro-batches: ranks x accumulate is 1");
        },
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<Ddp>(setup);
    },
};

} // namespace rondo::training::parallel
