// Runs steps up to synchronization points, where epochs end, checkpoints are written and parameters
// are compared.
#include "train/loop/trainer.h"

#include <algorithm>
#include <utility>

namespace rondo::training {

Trainer::Trainer(Communicator& comm, const TrainOptions& options, const Data& data,
                 Strategy& strategy, const Progress& progress, ElasticRanks* elastic)
    : comm_(comm),
      options_(options),
      data_(data),
      progress_(progress),
      identity_(identity(options, data)),
      epoch_steps_(epochSteps(options, data)),
      total_steps_(totalSteps(options, data)),
      strategy_(strategy),
      straggler_(options, comm.rank()),
      observer_(comm, options, shown(options, data)),
      elastic_(elastic) {
  const StrategyKind& kind = strategyFor(options, comm.size());
  sharded_ = kind.sharded;
  if (elastic && redundancyOf(options, kind) > 0) copies_.emplace(comm);
}

/// Returns whether the run continues.
bool Trainer::begin(const Held& held) {
  if (elastic_ && goOn(held)) return true;
  if (!options_.files.resume) return false;
  restore(comm_, options_.files.checkpoint, running());
  saved_ = at_.total;
  return true;
}

/// Goes on from what the ranks hold. Returns false if the run begins.
bool Trainer::goOn(const Held& held) {
  recovery_ = held.recovery;
  Rebuilt found = rebuild(comm_, held, running());
  changes_ = found.changes;
  saved_ = found.saved;
  switch (found.state) {
    case Rebuilt::State::none:
      if (!options_.elastic.joined) return false;
      throw Error(ErrorCode::peer_dead, "train: the ranks that trained are gone");
    case Rebuilt::State::lost: return returnTo(found);
    case Rebuilt::State::present: break;
  }
  say(found.shards);
  if (copies_) copies_->begin(changes_, std::move(found.kept));
  return true;
}

void Trainer::say(const std::string& recovery) {
  if (!recovery.empty()) recovery_ += (recovery_.empty() ? "" : "; then ") + recovery;
}

/// Returns to the last checkpoint, or to the beginning, since a part of the state is lost. Returns
/// false if it is the beginning.
bool Trainer::returnTo(const Rebuilt& lost) {
  if (copies_) copies_->begin(changes_, {});
  const std::string& file = options_.files.checkpoint;
  if (saved_ >= 0) {
    restore(comm_, file, running(), true);
    saved_ = at_.total;
    say(lost.shards + ": all ranks go on from the checkpoint of step " + std::to_string(at_.total));
    return true;
  }
  if (lost.total == 0) return false;
  if (file.empty())
    throw Error(ErrorCode::peer_dead,
                "train: after step " + std::to_string(lost.total) + " " + lost.shards +
                    ": no rank has a copy, and without a checkpoint the run cannot go on");
  say(lost.shards + " and there is no checkpoint yet: all ranks begin the run again");
  return false;
}

Held Trainer::hold(bool after_error) {
  Held held{.kept = {}, .report = report_, .saved = saved_, .recovery = recovery_};
  if (copies_) {
    held.kept = copies_->take(at_);
    return held;
  }
  Kept& now = held.kept.emplace_back();
  now.changes = changes_;
  now.at = at_;
  if (sharded_) {
    now.shards = comm_.size();
    now.rank = comm_.rank();
  }
  // After an error a shard may be in use, and is of no use without that of the rank that is lost.
  if (!sharded_ || !after_error) copy(strategy_.held(), now.own);
  return held;
}

/// With fewer than MIN ranks, waits for others.
void Trainer::awaitRanks() {
  if (!elastic_ || !elastic_->tooFew() || over()) return;
  if (comm_.rank() == 0 && options_.elastic.waiting)
    options_.elastic.waiting(comm_.size(), elastic_->least());
  const ElasticRanks::Awaited end = elastic_->await(options_.stop);
  paused_ = end == ElasticRanks::Awaited::enough;
  report_.stopped = end == ElasticRanks::Awaited::stopped;
  if (report_.stopped) saveIfDue();
  if (end != ElasticRanks::Awaited::late) return;
  const std::string& file = options_.files.checkpoint;
  if (!file.empty()) save(comm_, file, running());
  throw Error(ErrorCode::peer_dead,
              "train: only " + std::to_string(comm_.size()) + " of at least " +
                  std::to_string(elastic_->least()) + " ranks are there after step " +
                  std::to_string(at_.total) + ", and too few joined in time" +
                  (file.empty() ? "; there is no checkpoint" : "; --resume goes on from " + file));
}

TrainReport Trainer::run(Held& held) {
  const Stopwatch watch;
  const bool goes_on = begin(held);
  observer_.begin(at_.total, goes_on);
  if (copies_) copies_->renew(running(), at_);
  begun_ = true;
  held = {};
  if (at_.step == epoch_steps_) { // a rank was lost after the last step of an epoch
    TrainProgress now{};
    endEpoch(now, 0);
  }
  awaitRanks();
  // Writes the checkpoint that the loss of a rank has prevented, if any.
  if (goes_on && !paused_ && saved_ != at_.total) saveIfDue();
  const std::int64_t begun = at_.total;
  while (!over() && !paused_) {
    const Stopwatch since;
    const int before = at_.step;
    for (const int epoch = at_.epoch; at_.epoch == epoch && !over() && !paused_;)
      runStep(since, before);
  }
  if (paused_) return report_;
  if (times_.count() == 0) { // the run was resumed at its end, or stopped while it waited
    if (!report_.stopped) report_.test_accuracy = strategy_.evaluate();
    report_.parameter_hash = strategy_.verify("train: after the last step");
  }
  report_.steps = at_.total;
  report_.times = times_.medians();
  const double passed = times_.sum().step / 1000;
  if (passed > 0) report_.samples_per_second = samples(begun, at_.total) / passed;
  report_.bytes_per_step = strategy_.bytesPerStep();
  report_.idle = idle();
  strategy_.tell(report_);
  observer_.finish(watch.read() / 1000);
  return report_;
}

/// The mean share of waiting over the ranks that compute. Ranks that compute nothing do not count.
double Trainer::idle() {
  const TrainTimes sum = times_.sum();
  const bool computes = sum.forward > 0;
  double sums[] = {computes ? sum.communication / sum.step : 0, computes ? 1.0 : 0.0};
  comm_.allReduce(sums, sums, 2, DataType::float64, ReduceOp::sum);
  return sums[1] > 0 ? sums[0] / sums[1] : 0;
}

/// The number of samples that steps begin to end - 1 of the run take.
double Trainer::samples(std::int64_t begin, std::int64_t end) const {
  return static_cast<double>(samplesOf(end, options_, data_) - samplesOf(begin, options_, data_));
}

bool Trainer::over() const { return report_.stopped || at_.total >= total_steps_; }

void Trainer::runStep(const Stopwatch& since, int done_before) {
  const double delay = straggler_.next(times_.last());
  Straggler::sleep(delay);
  const Position before = at_;
  StepResult result =
      strategy_.run(at_, meeting(), observer_.timeline(times_.count(), at_.total + 1));
  at_ = result.at;
  if (copies_ && result.met) renewCopies(before, result.times);
  result.times.step += delay;
  times_.add(result.times);
  noise_ += result.noise;
  report_.stopped = result.met && result.stop && at_.total < total_steps_;
  TrainProgress now{.epoch = at_.epoch,
                    .epochs = static_cast<int>((total_steps_ + epoch_steps_ - 1) / epoch_steps_),
                    .step = at_.step,
                    .steps = epoch_steps_,
                    .loss = result.loss,
                    .samples_per_second = samples(at_.total - (at_.step - done_before), at_.total) /
                                          (since.read() / 1000),
                    .total_step = at_.total,
                    .learning_rate = result.learning_rate,
                    .times = result.times,
                    .ranks = comm_.size(),
                    .recovery = std::exchange(recovery_, {})};
  if (result.met) verifyIfDue(now);
  // A worker that is not in step with the others may find that the run has not completed a step
  // meanwhile.
  const bool further = at_.total > before.total;
  if (further) observer_.add(now, samples(at_.total - 1, at_.total));
  if (result.met) meet(now, since.read() / 1000);
  if (progress_ && (further || result.met)) progress_(now);
  if (!elastic_) return;
  observer_.flush(); // the next lowest rank goes on with the file
  paused_ = result.met && !over() && elastic_->mayGrow();
}

void Trainer::renewCopies(const Position& before, TrainTimes& times) {
  const Stopwatch watch;
  copies_->renew(running(), before);
  times.communication += watch.read();
  times.step += watch.read();
}

/// Called at each synchronization point, when all ranks have come to the same step.
void Trainer::meet(TrainProgress& now, double seconds) {
  if (at_.step == epoch_steps_) {
    endEpoch(now, seconds);
  } else if (over() && !report_.stopped) {
    report_.test_accuracy = now.test_accuracy = strategy_.evaluate();
    now.epoch_loss = epochLoss();
    observer_.endsAmidEpoch(now.test_accuracy);
  }
  saveIfDue();
}

/// Of the epoch's steps so far.
double Trainer::epochLoss() const { return at_.losses / (samples(0, at_.step) / options_.batch); }

void Trainer::endEpoch(TrainProgress& now, double seconds) {
  report_.test_accuracy = now.test_accuracy = strategy_.evaluate();
  now.epoch_loss = epochLoss();
  report_.epoch_loss.push_back(now.epoch_loss);
  report_.epoch_accuracy.push_back(now.test_accuracy);
  if (options_.gradients.noise_scale)
    report_.epoch_noise_scale.push_back(std::exchange(noise_, {}).scale());
  observer_.add({.epoch = at_.epoch,
                 .last_step = at_.total,
                 .loss = now.epoch_loss,
                 .test_accuracy = now.test_accuracy,
                 .seconds = seconds});
  at_ = {.epoch = at_.epoch + 1, .step = 0, .total = at_.total, .losses = 0};
}

/// The next synchronization point: the step that all ranks must complete before any rank continues.
std::int64_t Trainer::meeting() const {
  std::int64_t next = std::min(total_steps_, at_.total - at_.step + epoch_steps_);
  const auto every = [&next](std::int64_t done, std::int64_t total, int steps) {
    if (steps > 0) next = std::min(next, total + steps - done % steps);
  };
  every(at_.step, at_.total, options_.gradients.verify_every);
  if (!options_.files.checkpoint.empty())
    every(at_.total, at_.total, options_.files.checkpoint_every);
  return next;
}

void Trainer::verifyIfDue(const TrainProgress& now) {
  const int every = options_.gradients.verify_every;
  const bool due = every > 0 && (now.step == now.steps || now.step % every == 0);
  if (!due && !over()) return;
  report_.parameter_hash = strategy_.verify("train: after step " + std::to_string(now.step) +
                                            " of epoch " + std::to_string(now.epoch));
}

void Trainer::saveIfDue() {
  if (options_.files.checkpoint.empty()) return;
  const int every = options_.files.checkpoint_every;
  if (!over() && (every == 0 || at_.total % every != 0)) return;
  observer_.flush();
  save(comm_, options_.files.checkpoint, running());
  saved_ = at_.total;
}

Running Trainer::running() { return {strategy_, at_, report_, identity_, epoch_steps_}; }

} // namespace rondo::training
