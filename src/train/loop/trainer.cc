#include "train/loop/trainer.h"

#include <algorithm>

#include "train/data/sampler.h"
#include "train/loop/agreement.h"

namespace rondo::training {

namespace {

/// Test samples of one forward pass. The same for any number of ranks, so that all of them compute
/// the same products.
constexpr std::size_t kTestBatch = 128;

std::int64_t totalSteps(const TrainOptions& options, int epoch_steps) {
  return options.steps > 0 ? options.steps : std::int64_t{options.epochs} * epoch_steps;
}

} // namespace

Trainer::Trainer(Communicator& comm, const TrainOptions& options, const Data& data,
                 Replica& replica, const Progress& progress)
    : comm_(comm),
      options_(options),
      data_(data),
      progress_(progress),
      identity_(identity(options, data)),
      epoch_steps_(static_cast<int>(data.train.size() / static_cast<std::size_t>(options.batch))),
      total_steps_(totalSteps(options, epoch_steps_)),
      replica_(replica),
      stepper_(comm, options, data, replica_, total_steps_),
      test_(data.test, data.statistics, kTestBatch),
      observer_(comm, options, shown(options, data)) {
  times_.reserve(static_cast<std::size_t>(std::min<std::int64_t>(total_steps_, 100'000)));
}

TrainReport Trainer::run() {
  const Stopwatch watch;
  if (options_.resume) restore(comm_, options_.checkpoint, running());
  observer_.begin(at_.total);
  while (!over()) {
    const Stopwatch since;
    const int before = at_.step;
    for (const int epoch = at_.epoch; at_.epoch == epoch && !over();) runStep(since, before);
  }
  if (times_.empty()) report_.test_accuracy = evaluate(); // it was resumed where it ended
  report_.parameter_hash = replica_.hash();
  report_.steps = at_.total;
  report_.times = medians(times_);
  double passed = 0;
  for (const TrainTimes& times : times_) passed += times.step / 1000;
  if (passed > 0)
    report_.samples_per_second = static_cast<double>(times_.size()) * options_.batch / passed;
  observer_.finish(watch.read() / 1000);
  return report_;
}

bool Trainer::over() const { return report_.stopped || at_.total >= total_steps_; }

void Trainer::runStep(const Stopwatch& since, int done_before) {
  const StepResult result = stepper_.run(at_, observer_.timeline(times_.size(), at_.total + 1));
  ++at_.step;
  ++at_.total;
  at_.losses += result.loss;
  times_.push_back(result.times);
  report_.stopped = result.stop && at_.total < total_steps_;
  TrainProgress now{
      .epoch = at_.epoch,
      .epochs = static_cast<int>((total_steps_ + epoch_steps_ - 1) / epoch_steps_),
      .step = at_.step,
      .steps = epoch_steps_,
      .loss = result.loss,
      .samples_per_second = (at_.step - done_before) * options_.batch / (since.read() / 1000),
      .total_step = at_.total,
      .learning_rate = result.learning_rate,
      .times = result.times};
  verify(now);
  observer_.add(now);
  if (at_.step == epoch_steps_) endEpoch(now, since.read() / 1000);
  else if (over() && !report_.stopped) report_.test_accuracy = now.test_accuracy = evaluate();
  saveIfDue();
  if (progress_) progress_(now);
}

void Trainer::endEpoch(TrainProgress& now, double seconds) {
  report_.test_accuracy = now.test_accuracy = evaluate();
  report_.epoch_loss.push_back(at_.losses / at_.step);
  report_.epoch_accuracy.push_back(now.test_accuracy);
  observer_.add({.epoch = at_.epoch,
                 .last_step = at_.total,
                 .loss = report_.epoch_loss.back(),
                 .test_accuracy = now.test_accuracy,
                 .seconds = seconds});
  at_ = {.epoch = at_.epoch + 1, .step = 0, .total = at_.total, .losses = 0};
}

void Trainer::verify(const TrainProgress& now) {
  const int every = options_.verify_every;
  const bool due = every > 0 && (now.step == now.steps || now.step % every == 0);
  if (!due && !over()) return;
  const std::string when =
      "train: after step " + std::to_string(now.step) + " of epoch " + std::to_string(now.epoch);
  compareHashes(comm_, replica_.hash(), when);
  // ReLU makes zeros of NaN: the loss may never tell. The values are the same on all ranks by now.
  const std::string weight = replica_.firstNotFinite();
  if (!weight.empty())
    throw Error(ErrorCode::aborted, when + ": the values of " + weight + " are not finite");
}

void Trainer::saveIfDue() {
  if (options_.checkpoint.empty()) return;
  const int every = options_.checkpoint_every;
  if (!over() && (every == 0 || at_.total % every != 0)) return;
  observer_.flush();
  save(comm_, options_.checkpoint, running());
}

Running Trainer::running() { return {replica_, stepper_, at_, report_, identity_}; }

/// Every rank takes some of the batches of the test set; each is counted once.
double Trainer::evaluate() {
  const std::size_t samples = data_.test.size();
  const std::size_t batches = (samples + kTestBatch - 1) / kTestBatch;
  const Range own = share(batches, static_cast<std::size_t>(comm_.rank()),
                          static_cast<std::size_t>(comm_.size()));
  std::uint64_t correct = 0;
  for (std::size_t batch = own.begin; batch < own.end; ++batch) {
    const std::size_t begin = batch * kTestBatch;
    const std::size_t count = std::min(kTestBatch, samples - begin);
    correct += replica_.network().evaluate(test_.load(begin, count)).correct;
  }
  comm_.allReduce(&correct, &correct, 1, DataType::uint64, ReduceOp::sum);
  return static_cast<double>(correct) / static_cast<double>(samples);
}

} // namespace rondo::training
