// The training loop: one all-reduce of all gradients per step, one evaluation per epoch.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "rondo/detail/hash.h"
#include "rondo/train.h"
#include "train/agreement.h"
#include "train/aligned.h"
#include "train/dataset.h"
#include "train/mlp.h"
#include "train/product.h"
#include "train/sampler.h"

namespace rondo {

namespace training {
namespace {

using Clock = std::chrono::steady_clock;

/// Fashion-MNIST's mean and standard deviation, in units of a full pixel.
constexpr float kMean = 0.2860F, kDeviation = 0.3530F;
/// Test samples of one forward pass. The same for any number of ranks, so that all of them compute
/// the same products.
constexpr std::size_t kTestBatch = 128;

const std::vector<std::size_t> kMlpWidths = {kPixels, 256, 128, 64, kClasses};

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: " + what);
}

std::string text(double value) {
  std::array<char, 32> digits;
  std::snprintf(digits.data(), digits.size(), "%.17g", value);
  return digits.data();
}

void check(const TrainOptions& options, int ranks) {
  if (options.model != "mlp") refuse("model \"" + options.model + "\"; there is: mlp");
  if (options.epochs < 1)
    refuse("epochs is " + std::to_string(options.epochs) + ", must be 1 or more");
  if (options.accumulate < 1)
    refuse("accumulate is " + std::to_string(options.accumulate) + ", must be 1 or more");
  const std::int64_t parts = std::int64_t{ranks} * options.accumulate;
  if (options.batch < parts)
    refuse("batch is " + std::to_string(options.batch) + ", must be at least ranks x accumulate, " +
           std::to_string(parts));
  if (!std::isfinite(options.learning_rate) || options.learning_rate < 0)
    refuse("learning_rate is " + text(options.learning_rate) + ", must be 0 or more");
  if (!(options.momentum >= 0 && options.momentum <= 1))
    refuse("momentum is " + text(options.momentum) + ", must be in 0 to 1");
}

struct Data {
  Dataset train, test;
};

Data load(const TrainOptions& options) {
  const std::string folder = options.data.empty() ? defaultDataFolder() : options.data;
  Data data{loadDataset(folder, "train"), loadDataset(folder, "t10k")};
  if (options.limit_samples > 0 && options.limit_samples < data.train.size()) {
    data.train.images.resize(options.limit_samples * kPixels);
    data.train.labels.resize(options.limit_samples);
  }
  if (data.train.size() < static_cast<std::size_t>(options.batch))
    refuse("batch is " + std::to_string(options.batch) + ", but there are only " +
           std::to_string(data.train.size()) + " training samples");
  return data;
}

/// What must be equal on all ranks. Not the folder: only what is in it counts.
std::string describe(const TrainOptions& options, const Data& data) {
  std::string lines = "model " + options.model + "\nepochs " + std::to_string(options.epochs) +
                      "\nbatch " + std::to_string(options.batch) + "\naccumulate " +
                      std::to_string(options.accumulate) + "\nlearning_rate " +
                      text(options.learning_rate) + "\nmomentum " + text(options.momentum) +
                      "\nseed " + std::to_string(options.seed) + "\nlimit_samples " +
                      std::to_string(options.limit_samples) + "\nverify_ranks " +
                      std::to_string(options.verify_ranks);
  for (const auto& [name, set] : {std::pair{"training", &data.train}, {"test", &data.test}}) {
    lines += std::string("\n") + name + " samples " + std::to_string(set->size()) + " (images " +
             std::to_string(detail::hashBytes(set->images.data(), set->images.size())) +
             ", labels " +
             std::to_string(detail::hashBytes(set->labels.data(), set->labels.size())) + ")";
  }
  return lines;
}

/// One rank's half of the work.
class Trainer {
 public:
  Trainer(Communicator& comm, const TrainOptions& options, Data data)
      : comm_(comm),
        options_(options),
        data_(std::move(data)),
        model_(kMlpWidths),
        parameters_(model_.initialParameters(options.seed)),
        velocity_(parameters_.size()),
        sum_memory_(comm.allocate((parameters_.size() + 1) * sizeof(float))),
        sum_(static_cast<float*>(sum_memory_.data()), parameters_.size() + 1),
        part_(options.accumulate > 1 ? sum_.size() : 0) {
    for (std::size_t pixel = 0; pixel < shade_.size(); ++pixel)
      shade_[pixel] = (static_cast<float>(pixel) / 255.0F - kMean) / kDeviation;
  }

  TrainReport run(const std::function<void(const TrainProgress&)>& progress) {
    TrainReport report;
    for (int epoch = 1; epoch <= options_.epochs; ++epoch) runEpoch(epoch, progress, report);
    report.test_accuracy = report.epoch_accuracy.back();
    report.parameter_hash = parameterHash();
    return report;
  }

 private:
  /// Samples that do not fill a step are left out; each epoch's order leaves out others.
  void runEpoch(int epoch, const std::function<void(const TrainProgress&)>& progress,
                TrainReport& report) {
    const auto batch = static_cast<std::size_t>(options_.batch);
    const auto order =
        sampleOrder(static_cast<std::uint32_t>(data_.train.size()), options_.seed, epoch);
    const int steps = static_cast<int>(data_.train.size() / batch);
    const Clock::time_point begin = Clock::now();
    double losses = 0;
    for (int step = 1; step <= steps; ++step) {
      TrainProgress now{.epoch = epoch,
                        .epochs = options_.epochs,
                        .step = step,
                        .steps = steps,
                        .loss = 0,
                        .samples_per_second = 0};
      now.loss = runStep(order.data() + static_cast<std::size_t>(step - 1) * batch);
      losses += now.loss;
      if (options_.verify_ranks) {
        compareHashes(
            comm_, parameterHash(),
            "train: after step " + std::to_string(step) + " of epoch " + std::to_string(epoch));
      }
      now.samples_per_second = static_cast<double>(step) * options_.batch / secondsSince(begin);
      if (step == steps) {
        now.test_accuracy = evaluate();
        report.epoch_loss.push_back(losses / steps);
        report.epoch_accuracy.push_back(now.test_accuracy);
      }
      if (progress) progress(now);
    }
  }

  /// Gives the mean loss. The sum over micro-batches goes from left to right, and so does the
  /// rank-order reduction: one micro-batch each on N ranks, or N on one rank, is the same sum.
  double runStep(const std::uint32_t* samples) {
    const auto batch = static_cast<std::size_t>(options_.batch);
    const auto local = static_cast<std::size_t>(options_.accumulate);
    const std::size_t first = static_cast<std::size_t>(comm_.rank()) * local;
    const std::size_t all = static_cast<std::size_t>(comm_.size()) * local;
    for (std::size_t m = 0; m < local; ++m) {
      const Range range = share(batch, first + m, all);
      const std::span<float> gradient = m == 0 ? sum_ : std::span<float>(part_);
      gather(data_.train, range.size(), [&](std::size_t i) { return samples[range.begin + i]; });
      gradient.back() = model_.lossAndGradient(parameters_.data(), images_.data(), labels_.data(),
                                               range.size(), gradient.data());
      if (m == 0) continue;
      for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += part_[i];
    }
    // The loss rides behind the gradients.
    comm_.allReduce(sum_.data(), sum_.data(), sum_.size(), DataType::float32, ReduceOp::sum);
    const float scale = 1.0F / static_cast<float>(batch);
    const auto rate = static_cast<float>(options_.learning_rate);
    const auto momentum = static_cast<float>(options_.momentum);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      velocity_[i] = momentum * velocity_[i] + scale * sum_[i];
      parameters_[i] -= rate * velocity_[i];
    }
    return static_cast<double>(sum_.back()) / static_cast<double>(batch);
  }

  /// Every rank takes some of the batches of the test set; each is counted once.
  double evaluate() {
    const std::size_t samples = data_.test.size();
    const std::size_t batches = (samples + kTestBatch - 1) / kTestBatch;
    const Range own = share(batches, static_cast<std::size_t>(comm_.rank()),
                            static_cast<std::size_t>(comm_.size()));
    std::uint64_t correct = 0;
    for (std::size_t batch = own.begin; batch < own.end; ++batch) {
      const std::size_t begin = batch * kTestBatch;
      const std::size_t count = std::min(kTestBatch, samples - begin);
      gather(data_.test, count, [&](std::size_t i) { return begin + i; });
      correct += model_.countCorrect(parameters_.data(), images_.data(), labels_.data(), count);
    }
    comm_.allReduce(&correct, &correct, 1, DataType::uint64, ReduceOp::sum);
    return static_cast<double>(correct) / static_cast<double>(samples);
  }

  /// Copies samples index(0) to index(count - 1) to images_ and labels_.
  template <class Index>
  void gather(const Dataset& set, std::size_t count, const Index& index) {
    images_.resize(count * kPixels);
    labels_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t sample = index(i);
      const std::uint8_t* pixels = set.images.data() + sample * kPixels;
      std::transform(pixels, pixels + kPixels,
                     images_.begin() + static_cast<std::ptrdiff_t>(i * kPixels),
                     [this](std::uint8_t pixel) { return shade_[pixel]; });
      labels_[i] = set.labels[sample];
    }
  }

  std::uint64_t parameterHash() const {
    return detail::hashBytes(parameters_.data(), parameters_.size() * sizeof(float));
  }

  Communicator& comm_;
  const TrainOptions& options_;
  const Data data_;
  Mlp<float> model_;
  AlignedVector<float> parameters_, velocity_;
  Buffer sum_memory_;           ///< peers on this machine read it in place
  std::span<float> sum_;        ///< of the step: gradient and, last, loss
  AlignedVector<float> part_;   ///< the same of a micro-batch
  AlignedVector<float> images_; ///< of the samples at work
  std::vector<std::uint8_t> labels_;
  std::array<float, 256> shade_{}; ///< what a pixel's value becomes
};

} // namespace
} // namespace training

TrainReport train(Communicator& comm, const TrainOptions& options,
                  const std::function<void(const TrainProgress&)>& progress) {
  const auto begin = training::Clock::now();
  training::Data data;
  training::agree(comm, [&] {
    training::requireProducts();
    training::check(options, comm.size());
    data = training::load(options);
    return training::describe(options, data);
  });
  const training::ComputeThreads threads;
  TrainReport report = training::Trainer(comm, options, std::move(data)).run(progress);
  report.seconds = training::secondsSince(begin);
  return report;
}

} // namespace rondo
