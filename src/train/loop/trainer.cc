#include "train/loop/trainer.h"

#include <algorithm>
#include <chrono>

#include "rondo/detail/hash.h"
#include "train/loop/agreement.h"

namespace rondo::training {

namespace {

using Clock = std::chrono::steady_clock;

/// Test samples of one forward pass. The same for any number of ranks, so that all of them compute
/// the same products.
constexpr std::size_t kTestBatch = 128;

std::vector<std::size_t> mlpWidths(const Dataset& set) {
  return {set.shape.size(), 256, 128, 64, set.classes};
}

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Sums, since 1/batch is applied behind the reduction. The order in which gradients come is known:
/// buckets that were formed anew would be summed otherwise in the first step than in all others.
GradientOptions reduction() {
  GradientOptions options;
  options.average = false;
  options.follow_observed_order = false;
  return options;
}

} // namespace

Trainer::Trainer(Communicator& comm, const TrainOptions& options, Data data)
    : comm_(comm),
      options_(options),
      data_(std::move(data)),
      model_(mlpWidths(data_.train)),
      parameters_(model_.initialParameters(options.seed)),
      velocity_(parameters_.size()),
      reducer_(comm, parameters(), reduction()),
      train_(data_.train, data_.statistics, static_cast<std::size_t>(options.batch)),
      test_(data_.test, data_.statistics, kTestBatch),
      sampler_(data_.train.size(), static_cast<std::size_t>(options.batch), options.seed,
               Remainder::drop) {
  if (options.accumulate > 1) part_.resize(*std::max_element(counts_.begin(), counts_.end()));
}

/// As the reducer knows them: "0.weight", "0.bias", "1.weight", ...
std::vector<Parameter> Trainer::parameters() {
  std::vector<Parameter> all;
  float* value = parameters_.data();
  for (const auto& shape : model_.shapes()) {
    const std::size_t number = all.size();
    Parameter& one = all.emplace_back();
    one.name = std::to_string(number / 2) + (number % 2 == 0 ? ".weight" : ".bias");
    one.value = value;
    one.shape = shape;
    counts_.push_back(one.count());
    value += one.count();
  }
  return all;
}

TrainReport Trainer::run(const Progress& progress) {
  TrainReport report;
  for (int epoch = 1; epoch <= options_.epochs; ++epoch) runEpoch(epoch, progress, report);
  report.test_accuracy = report.epoch_accuracy.back();
  report.parameter_hash = parameterHash();
  return report;
}

/// Samples that do not fill a step are left out; each epoch's order leaves out others.
void Trainer::runEpoch(int epoch, const Progress& progress, TrainReport& report) {
  const int steps = static_cast<int>(sampler_.steps());
  const Clock::time_point begin = Clock::now();
  double losses = 0;
  for (int step = 1; step <= steps; ++step) {
    TrainProgress now{.epoch = epoch,
                      .epochs = options_.epochs,
                      .step = step,
                      .steps = steps,
                      .loss = 0,
                      .samples_per_second = 0};
    now.loss = runStep(sampler_.samples(epoch, static_cast<std::size_t>(step - 1)));
    losses += now.loss;
    verify(now);
    now.samples_per_second = static_cast<double>(step) * options_.batch / secondsSince(begin);
    if (step == steps) {
      now.test_accuracy = evaluate();
      report.epoch_loss.push_back(losses / steps);
      report.epoch_accuracy.push_back(now.test_accuracy);
    }
    if (progress) progress(now);
  }
}

/// Gives the mean loss.
double Trainer::runStep(std::span<const std::uint32_t> samples) {
  loss_ = 0;
  Work losses = computeGradients(samples);
  reducer_.wait();
  losses.wait();
  update();
  return loss_ / options_.batch;
}

/// Gives the sums over this rank's micro-batches to the reducer; the Work is that of their losses.
/// Sums go from left to right, and so does the rank-order reduction: one micro-batch each on N
/// ranks, or N on one rank, is the same sum.
Work Trainer::computeGradients(std::span<const std::uint32_t> samples) {
  const auto batch = static_cast<std::size_t>(options_.batch);
  const auto local = static_cast<std::size_t>(options_.accumulate);
  const std::size_t first = static_cast<std::size_t>(comm_.rank()) * local;
  const std::size_t all = static_cast<std::size_t>(comm_.size()) * local;
  const auto sum = [this](std::size_t i) { return static_cast<float*>(reducer_.gradient(i)); };
  Work losses;
  for (std::size_t m = 0; m < local; ++m) {
    const Range range = share(batch, first + m, all);
    const Batch part = train_.load(samples.subspan(range.begin, range.size()));
    loss_ += model_.loss(parameters_.data(), part.inputs, part.labels, part.count);
    if (m + 1 == local) { // the loss travels while the backward pass goes on
      losses = comm_.allReduceAsync(&loss_, &loss_, 1, DataType::float64, ReduceOp::sum);
      reducer_.begin();
    }
    model_.backward(
        parameters_.data(), part.inputs, part.count,
        [&](std::size_t i) { return m == 0 ? sum(i) : part_.data(); },
        [&](std::size_t i) {
          if (m > 0)
            std::transform(sum(i), sum(i) + counts_[i], part_.data(), sum(i), std::plus<>());
          if (m + 1 == local) reducer_.ready(i);
        });
  }
  return losses;
}

void Trainer::update() {
  const float scale = 1.0F / static_cast<float>(options_.batch);
  const auto rate = static_cast<float>(options_.learning_rate);
  const auto momentum = static_cast<float>(options_.momentum);
  float *value = parameters_.data(), *velocity = velocity_.data();
  for (std::size_t p = 0; p < counts_.size(); ++p) {
    const auto* const sum = static_cast<const float*>(reducer_.gradient(p));
    for (std::size_t i = 0; i < counts_[p]; ++i) {
      velocity[i] = momentum * velocity[i] + scale * sum[i];
      value[i] -= rate * velocity[i];
    }
    value += counts_[p];
    velocity += counts_[p];
  }
}

void Trainer::verify(const TrainProgress& now) {
  if (options_.verify_every == 0) return;
  if (now.step != now.steps && now.step % options_.verify_every != 0) return;
  compareHashes(
      comm_, parameterHash(),
      "train: after step " + std::to_string(now.step) + " of epoch " + std::to_string(now.epoch));
}

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
    const Batch part = test_.load(begin, count);
    correct += model_.countCorrect(parameters_.data(), part.inputs, part.labels, count);
  }
  comm_.allReduce(&correct, &correct, 1, DataType::uint64, ReduceOp::sum);
  return static_cast<double>(correct) / static_cast<double>(samples);
}

std::uint64_t Trainer::parameterHash() const {
  return detail::hashBytes(parameters_.data(), parameters_.size() * sizeof(float));
}

} // namespace rondo::training
