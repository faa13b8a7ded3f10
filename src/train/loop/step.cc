#include "train/loop/step.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "rondo/detail/hash.h"
#include "train/loop/agreement.h"
#include "train/loop/hooks.h"
#include "train/optim/norm.h"

namespace rondo::training {

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

OptimizerSettings settings(const TrainOptions& options) {
  return {.momentum = options.momentum,
          .nesterov = options.nesterov,
          .weight_decay = options.weight_decay};
}

Schedule schedule(const TrainOptions& options, std::int64_t total) {
  const auto total_steps = static_cast<std::uint64_t>(total);
  const bool scales = options.base_batch > 0;
  const auto batch = static_cast<std::uint64_t>(options.batch);
  const auto base = static_cast<std::uint64_t>(options.base_batch);
  return {.kind = scheduleKind(options.schedule),
          .rate = scales ? scaledRate(options.learning_rate, batch, base) : options.learning_rate,
          .warmup_rate = scales ? options.learning_rate : 0,
          .warmup_steps = static_cast<std::uint64_t>(options.warm_up),
          .step_length = std::max<std::uint64_t>((total_steps + 2) / 3, 1),
          .total_steps = total_steps};
}

std::size_t largestShare(const TrainOptions& options, std::size_t parts) {
  return (static_cast<std::size_t>(options.batch) + parts - 1) / parts;
}

void add(float* to, const float* from, std::size_t count) {
  std::transform(to, to + count, from, to, std::plus<>());
}

} // namespace

Stepper::Stepper(Communicator& comm, const TrainOptions& options, const Data& data,
                 Replica& replica, std::int64_t total_steps)
    : comm_(comm),
      options_(options),
      replica_(replica),
      parts_(static_cast<std::size_t>(comm.size()) * static_cast<std::size_t>(options.accumulate)),
      sampler_(data.train.size(), static_cast<std::size_t>(options.batch), options.seed,
               Remainder::drop),
      loader_(data.train, data.statistics, largestShare(options, parts_)),
      hook_(makeHook(options.hook)),
      reducer_(comm, replica.parameters(), reduction(options, hook_)),
      optimizer_(makeOptimizer(options.optimizer, replica.weights(), settings(options))),
      schedule_(schedule(options, total_steps)),
      ready_([this](std::size_t weight) { gradientStands(weight); }) {
  if (options.accumulate == 1) return;
  for (const Weight* weight : replica.weights()) part_.emplace_back(weight->size());
  statistics_.resize(replica.statistics().size());
}

/// Works on their way use sums_, and the replica's statistics.
Stepper::~Stepper() {
  for (Work* work : {&sent_, &statistics_sent_}) {
    try {
      if (work->test()) continue;
      comm_.abort("train: a step was left by an exception");
      work->waitFor(std::chrono::seconds(10));
    } catch (const std::exception&) { // how it ended is of no interest
    }
  }
}

StepResult Stepper::run(const Position& done, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  sums_ = {0, options_.stop && options_.stop() ? 1.0 : 0.0};
  layer_.clear();
  StepClock clock(result.times, timeline);
  computeGradients(done, clock);
  reducer_.wait();
  sent_.wait();
  statistics_sent_.wait();
  clock.lap(&TrainTimes::communication, nullptr);
  if (timeline) showBuckets(*timeline);
  requireFinite(done);
  result.learning_rate = rateAt(schedule_, static_cast<std::uint64_t>(done.total));
  update(result.learning_rate);
  clock.lap(&TrainTimes::optimizer, "optimizer");
  result.loss = sums_.loss / options_.batch;
  result.stop = sums_.stops > 0;
  result.times.step = whole.read();
  return result;
}

/// The reducer gets the sums over this rank's micro-batches. They go from left to right, and so
/// does the rank-order reduction: one micro-batch each on N ranks, or N on one rank, is the same
/// sum.
void Stepper::computeGradients(const Position& done, StepClock& clock) {
  const auto number = static_cast<std::uint64_t>(done.total);
  Pass pass{.seed = detail::mix(options_.seed + detail::mix(number)), .sum_over_ranks = {}};
  if (options_.sync_batch_norm)
    pass.sum_over_ranks = [this](float* values, std::size_t count) {
      comm_.allReduce(values, values, count, DataType::float32, ReduceOp::sum);
    };
  for (micro_ = 0; micro_ < options_.accumulate; ++micro_) {
    aim(micro_ == 0);
    const Batch batch = load(done);
    clock.lap(&TrainTimes::data, "data");
    const double loss = replica_.network().forward(batch, pass);
    sums_.loss += loss;
    if (!std::isfinite(loss) && layer_.empty()) layer_ = replica_.network().firstNotFinite();
    addStatistics();
    clock.lap(&TrainTimes::forward, "forward");
    if (micro_ + 1 == options_.accumulate) sendSums();
    replica_.network().backward(ready_);
    clock.lap(&TrainTimes::backward, "backward");
  }
}

Batch Stepper::load(const Position& done) {
  static constexpr Augmentation kAugmentation{.flip = true, .padding = 4};
  const std::size_t first =
      static_cast<std::size_t>(comm_.rank()) * static_cast<std::size_t>(options_.accumulate);
  const Range range = share(static_cast<std::size_t>(options_.batch),
                            first + static_cast<std::size_t>(micro_), parts_);
  const auto samples = sampler_.samples(done.epoch, static_cast<std::size_t>(done.step))
                           .subspan(range.begin, range.size());
  if (!options_.augment) return loader_.load(samples);
  return loader_.load(samples, kAugmentation, options_.seed, done.epoch);
}

/// Running statistics move once a step, by the mean over all micro-batches: the sum of the batches'
/// own is built as that of the gradients is.
void Stepper::addStatistics() {
  const std::span<float> own = replica_.statistics();
  if (options_.accumulate == 1 || own.empty()) return;
  if (micro_ > 0) add(own.data(), statistics_.data(), own.size());
  std::copy(own.begin(), own.end(), statistics_.begin());
}

/// Lets the first micro-batch write into the buckets, the others beside them.
void Stepper::aim(bool first) {
  const auto weights = replica_.weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i]->gradient = first ? static_cast<float*>(reducer_.gradient(i)) : part_[i].data();
}

/// Loss and statistics are complete before the last backward pass, and travel while it goes on.
void Stepper::sendSums() {
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

void Stepper::gradientStands(std::size_t weight) {
  if (micro_ > 0)
    add(static_cast<float*>(reducer_.gradient(weight)), part_[weight].data(), part_[weight].size());
  if (micro_ + 1 == options_.accumulate) reducer_.ready(weight);
}

void Stepper::showBuckets(Timeline& timeline) const {
  for (const GradientBucketTimes& bucket : reducer_.timeline()) {
    const auto begin = std::chrono::duration<double>(bucket.begin);
    timeline.add("bucket " + std::to_string(bucket.bucket), Lane::communication,
                 reducing_ + std::chrono::duration_cast<Clock::duration>(begin),
                 bucket.end - bucket.begin, bucket.bytes);
  }
}

/// All ranks have the same sum, so all come here or none.
void Stepper::requireFinite(const Position& done) {
  if (std::isfinite(sums_.loss)) return;
  const std::string what =
      "train: the loss of step " + std::to_string(done.total + 1) + " is not finite";
  agree(comm_, [&]() -> std::string {
    if (layer_.empty()) return {};
    throw Error(ErrorCode::aborted, what + "; the first values of that kind come from " + layer_);
  });
  throw Error(ErrorCode::aborted, what);
}

void Stepper::update(double learning_rate) {
  aim(true);
  float scale = 1.0F / static_cast<float>(options_.batch);
  if (options_.clip > 0) scale = clip(replica_.weights(), scale, options_.clip).scale;
  optimizer_->step(learning_rate, scale);
  if (!replica_.state().empty()) replica_.network().moveState(parts_);
  replica_.network().weightsChanged();
}

std::vector<GradientHookArray> Stepper::hookState() {
  return hook_ ? hook_->state(reducer_.buckets()) : std::vector<GradientHookArray>();
}

} // namespace rondo::training
