// Strategy local (local SGD): every rank trains its own model. Every `period` steps the models are
// averaged.
//
//   sent                   when
//   values                 AllReduce after every `period`th step. Between two of these also where
//                          the trainer needs the model; each rank then goes on with its own values
//   loss sums, stop flag   AllReduce at the same points
//
// With M bytes of values N ranks send 2 (N-1) M bytes once per period: 2 (N-1)/period M a step, if
// the trainer does not evaluate or save in between. Each rank has its own optimizer, whose state is
// not averaged. With slow momentum b, the average is not the new model itself but gives a direction
// (d = model before the period - average, r = learning rate):
//
//   u = b u + d / r;  model = model - r u
//
// A checkpoint has the means over the ranks, from which other strategies and numbers of ranks go on
// (u then begins with 0), and the state of each rank.
//
// With period 1, sgd and b = 0 the averages equal those of `ddp`, except for rounding. Between
// averages no rank waits for another, so short delays of a straggler cost less.
//
// Stich, Local SGD Converges Fast and Communicates Little, 2019; Wang et al., SlowMo, 2020.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "train/loop/settings.h"
#include "train/parallel/finite.h"
#include "train/parallel/own_arrays.h"
#include "train/parallel/recipe.h"
#include "train/parallel/samples.h"
#include "train/parallel/whole_model.h"

namespace rondo::training::parallel {

namespace {

class Local : public Strategy {
 public:
  explicit Local(const Setup& setup);

  StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) override;
  std::uint64_t verify(const std::string& when) override;
  double evaluate() override;
  Snapshot snapshot() override;
  void adopt(const Position& at) override;
  void adoptShared(const Position& at) override;
  std::vector<StatePart> held() override;
  bool differs() const override { return true; }
  double bytesPerStep() const override;

 private:
  void step(const Position& done, double learning_rate, StepClock& clock);
  void exchange(StepResult& result);
  void average();
  void moveSlowly(double learning_rate);
  void takeMeans(std::vector<TensorMemory>& tensors);
  bool areAlike();
  /// Calls look() while the replica holds the ranks' average.
  template <class Look>
  auto withAverage(const Look& look);

  Communicator& comm_;
  const TrainOptions& options_;
  WholeModel model_;
  Replica& replica_;
  Samples samples_;
  AlignedVector<float> gradients_;
  const std::unique_ptr<Optimizer> optimizer_;
  const Schedule schedule_;
  /// u, and the weights before the period; empty if slow_momentum is 0
  AlignedVector<float> slow_, before_;
  std::optional<OwnArrays> kept_;           ///< gathered by the last snapshot
  std::vector<AlignedVector<float>> means_; ///< on rank 0, the tensors of the last snapshot
  bool alike_ = true;                       ///< all ranks hold the same model
  /// For each step since the last exchange(), the loss summed over this rank's samples. exchange()
  /// appends the stop flag.
  std::vector<double> losses_;
  double told_ = 0;   ///< Position::losses at the last exchange()
  bool stop_ = false; ///< this rank was asked to stop since the last exchange()
  std::string layer_; ///< the first layer with a value that is not finite; "" if there is none
};

Local::Local(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      model_(setup),
      replica_(model_.replica()),
      samples_(options_, setup.data, static_cast<std::size_t>(comm_.size())),
      gradients_(replica_.values().size()),
      optimizer_(
          makeOptimizer(options_.optimizer.name, replica_.weights(), optimizerSettings(options_))),
      schedule_(schedule(options_, totalSteps(options_, setup.data))) {
  for (Weight* weight : replica_.weights())
    weight->gradient = gradients_.data() + (weight->value - replica_.values().data());
  if (options_.averaging.slow_momentum == 0) return;
  const std::span<float> values = replica_.values();
  const std::size_t learned =
      replica_.state().empty()
          ? values.size()
          : static_cast<std::size_t>(replica_.state().front()->value - values.data());
  slow_.resize(learned);
  before_.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(learned));
}

StepResult Local::run(const Position& done, std::int64_t meeting, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  StepClock clock(result.times, timeline);
  if (losses_.empty()) told_ = done.losses;
  result.learning_rate = rateAt(schedule_, static_cast<std::uint64_t>(done.total));
  step(done, result.learning_rate, clock);
  const double share = static_cast<double>(options_.batch) / comm_.size();
  result.loss = losses_.back() / share;
  result.at = after(done, result.loss);
  const bool due = result.at.total % options_.averaging.period == 0;
  result.met = due || result.at.total == meeting;
  if (result.met) exchange(result);
  if (due) {
    average();
    if (!slow_.empty()) moveSlowly(result.learning_rate);
    alike_ = true;
  }
  clock.lap(&TrainTimes::communication, due ? "average" : nullptr);
  result.times.step = whole.read();
  return result;
}

void Local::step(const Position& done, double learning_rate, StepClock& clock) {
  const Pass pass = passOf(options_, done.total);
  const Batch batch = samples_.load(done.epoch, done.step, static_cast<std::size_t>(comm_.rank()));
  clock.lap(&TrainTimes::data, "data");
  losses_.push_back(replica_.network().forward(batch, pass));
  stop_ = stop_ || (options_.stop && options_.stop());
  if (!std::isfinite(losses_.back()) && layer_.empty())
    layer_ = replica_.network().firstNotFinite();
  clock.lap(&TrainTimes::forward, "forward");
  replica_.network().backward([](std::size_t) {});
  clock.lap(&TrainTimes::backward, "backward");
  // Each rank sees batch / size() samples. This scale makes the mean over the ranks the mean over
  // the batch.
  optimizer_->step(learning_rate, static_cast<float>(comm_.size()) / options_.batch);
  if (!replica_.state().empty()) replica_.network().moveState(batch.count);
  replica_.network().weightsChanged();
  alike_ = false;
  clock.lap(&TrainTimes::optimizer, "optimizer");
}

/// Replaces this rank's losses since the last exchange by those of the whole batch.
void Local::exchange(StepResult& result) {
  losses_.push_back(stop_ ? 1 : 0);
  comm_.allReduce(losses_.data(), losses_.data(), losses_.size(), DataType::float64, ReduceOp::sum);
  result.stop = losses_.back() > 0;
  losses_.pop_back();
  result.at.losses = told_;
  std::int64_t step = result.at.total - static_cast<std::int64_t>(losses_.size());
  // Added one by one, so that the result does not depend on when ranks exchange losses.
  for (const double loss : losses_) {
    result.loss = loss / options_.batch;
    result.at.losses += result.loss;
    requireFinite(comm_, loss, ++step, layer_);
  }
  losses_.clear();
  stop_ = false;
}

void Local::average() {
  const std::span<float> values = replica_.values();
  // Not in place, so that the values remain if the call fails. The gradients are not needed now.
  comm_.allReduce(values.data(), gradients_.data(), values.size(), DataType::float32,
                  ReduceOp::sum);
  const float part = 1.0F / static_cast<float>(comm_.size());
  std::transform(gradients_.begin(), gradients_.end(), values.begin(),
                 [part](float sum) { return sum * part; });
  replica_.network().weightsChanged();
}

void Local::moveSlowly(double learning_rate) {
  const std::span<float> values = replica_.values();
  const auto rate = static_cast<float>(learning_rate);
  const auto momentum = static_cast<float>(options_.averaging.slow_momentum);
  const float per_rate = rate > 0 ? 1 / rate : 0; // with rate 0 nothing has moved
  for (std::size_t i = 0; i < slow_.size(); ++i) {
    slow_[i] = momentum * slow_[i] + per_rate * (before_[i] - values[i]);
    values[i] = before_[i] - rate * slow_[i];
  }
  std::copy_n(values.begin(), before_.size(), before_.begin());
  replica_.network().weightsChanged();
}

template <class Look>
auto Local::withAverage(const Look& look) {
  if (alike_) return look();
  const std::span<float> values = replica_.values();
  const AlignedVector<float> own(values.begin(), values.end());
  average();
  const auto seen = look();
  std::copy(own.begin(), own.end(), values.begin());
  replica_.network().weightsChanged();
  return seen;
}

std::uint64_t Local::verify(const std::string& when) {
  return withAverage([&] { return model_.verify(when); });
}

double Local::evaluate() {
  return withAverage([&] { return model_.evaluate(); });
}

/// Contains the means of the ranks' tensors, and the values and optimizer state of every rank.
Snapshot Local::snapshot() {
  std::vector<OwnArray> own = {{"local.values", replica_.values()}};
  for (StateArray& one : optimizer_->state()) own.push_back({"local." + one.name, one.values});
  if (!slow_.empty()) own.insert(own.end(), {{"local.slow", slow_}, {"local.before", before_}});
  kept_.emplace(comm_, std::move(own));
  kept_->gather();
  Snapshot all{.tensors = model_.tensors(*optimizer_), .ranks = comm_.size(), .means = true};
  takeMeans(all.tensors);
  kept_->describe(all.tensors);
  return all;
}

/// Lets the tensors of rank 0 be their means over the ranks.
void Local::takeMeans(std::vector<TensorMemory>& tensors) {
  const float part = 1.0F / static_cast<float>(comm_.size());
  const bool here = comm_.rank() == 0;
  means_.clear();
  for (TensorMemory& one : tensors) {
    const std::size_t count = one.label.bytes() / sizeof(float);
    const bool equal = alike_ && !one.label.name.starts_with("optimizer.");
    float* const mean = here ? means_.emplace_back(count).data() : nullptr;
    if (equal && here) std::copy_n(static_cast<const float*>(one.data), count, mean);
    if (!equal) comm_.reduce(one.data, mean, count, DataType::float32, ReduceOp::sum, 0);
    if (!here) continue;
    if (!equal)
      for (float& value : means_.back()) value *= part;
    one.data = mean;
  }
}

void Local::adopt(const Position& at) {
  optimizer_->setSteps(static_cast<std::uint64_t>(at.total));
  losses_.clear();
  kept_->scatter();
  replica_.network().weightsChanged();
  alike_ = areAlike();
}

/// Whether all ranks hold the same model: the file may come from a run with another period.
bool Local::areAlike() {
  const std::uint64_t hash = replica_.hash();
  std::array<std::uint64_t, 2> ends{hash, ~hash};
  comm_.allReduce(ends.data(), ends.data(), ends.size(), DataType::uint64, ReduceOp::max);
  return ends[0] == ~ends[1];
}

void Local::adoptShared(const Position& at) {
  const std::vector<TensorMemory> tensors = model_.tensors(*optimizer_);
  for (std::size_t i = 0; comm_.rank() == 0 && i < tensors.size(); ++i)
    std::copy(means_[i].begin(), means_[i].end(), static_cast<float*>(tensors[i].data));
  model_.broadcast(tensors);
  optimizer_->setSteps(static_cast<std::uint64_t>(at.total));
  std::fill(slow_.begin(), slow_.end(), 0.0F);
  std::copy_n(replica_.values().begin(), before_.size(), before_.begin());
  alike_ = true;
  losses_.clear();
}

std::vector<StatePart> Local::held() {
  std::vector<StatePart> all = model_.parts(*optimizer_);
  if (slow_.empty()) return all;
  all.push_back({"local.slow", 0, slow_});
  all.push_back({"local.before", 0, before_});
  return all;
}

double Local::bytesPerStep() const {
  const double values = static_cast<double>(gradients_.size() * sizeof(float));
  return 2.0 * (comm_.size() - 1) * values / options_.averaging.period;
}

void check(const TrainOptions& options, int ranks) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "train: " + what);
  };
  if (options.averaging.period < 1)
    refuse("period is " + std::to_string(options.averaging.period) + ", must be 1 or more");
  if (!(options.averaging.slow_momentum >= 0 && options.averaging.slow_momentum < 1))
    refuse("slow_momentum is " + std::to_string(options.averaging.slow_momentum) +
           ", must be 0 or more and below 1");
  requireParts(options, ranks, "ranks");
}

} // namespace

extern const StrategyKind local;
const StrategyKind local{
    .name = "local",
    .summary = "local SGD: a model on each rank, averaged after each --period steps",
    .check = check,
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<Local>(setup);
    },
};

} // namespace rondo::training::parallel
