// Strategy dp, for comparison with ddp: rank 0 holds the model and sends it to the other ranks in
// each step.
//
//   sent                     when
//   samples, rank 0 to all   before the forward pass: the batch is scattered
//   values, rank 0 to all    before the forward pass: the model is replicated
//   gradients, all to rank 0 after the backward pass: they are reduced to rank 0
//   2 sums                   after that: AllReduce of loss and stop flag
//
// With M bytes of values, N ranks and B bytes of samples in a batch, the ranks send (N-1) (2 M +
// B/N) bytes in a step, all of them from or to rank 0. Only rank 0 loads samples and runs the
// optimizer. Nothing overlaps with computation.
//
// PyTorch's DataParallel, with ranks in place of the devices of one process. Li et al., PyTorch
// Distributed, 2020, compare it with DistributedDataParallel (here `ddp`).
#include <algorithm>
#include <cmath>

#include "train/loop/settings.h"
#include "train/optim/norm.h"
#include "train/parallel/finite.h"
#include "train/parallel/recipe.h"
#include "train/parallel/samples.h"
#include "train/parallel/whole_model.h"

namespace rondo::training::parallel {

namespace {

/// How a batch is scattered: the block of each rank, for samples of `elements` elements each.
struct Scattered {
  std::vector<std::size_t> counts, offsets;

  Scattered(std::size_t batch, std::size_t ranks, std::size_t elements) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Range part = share(batch, rank, ranks);
      counts.push_back(part.size() * elements);
      offsets.push_back(part.begin * elements);
    }
  }
  Blocks blocks() const { return {counts, offsets}; }
};

class Dp : public Strategy {
 public:
  explicit Dp(const Setup& setup);

  StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) override;
  std::uint64_t verify(const std::string& when) override;
  double evaluate() override;
  Snapshot snapshot() override;
  void adopt(const Position& at) override;
  double bytesPerStep() const override;

 private:
  Batch scatter(const Position& done);
  void replicate();
  void gatherGradients();

  Communicator& comm_;
  const TrainOptions& options_;
  WholeModel model_;
  Replica& replica_;
  Samples samples_; ///< part 0 of 1: whole batches
  const std::size_t sample_size_;
  /// In the order of the values, followed by the statistics of the state.
  AlignedVector<float> gradients_;
  AlignedVector<float> inputs_;
  std::vector<std::uint8_t> labels_;
  std::vector<std::uint32_t> numbers_;
  const std::unique_ptr<Optimizer> optimizer_; ///< only rank 0 steps it
  const Schedule schedule_;
};

Dp::Dp(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      model_(setup),
      replica_(model_.replica()),
      samples_(options_, setup.data, 1),
      sample_size_(setup.data.train.shape.size()),
      gradients_(replica_.values().size()),
      optimizer_(
          makeOptimizer(options_.optimizer.name, replica_.weights(), optimizerSettings(options_))),
      schedule_(schedule(options_, totalSteps(options_, setup.data))) {
  for (const auto list : {replica_.weights(), replica_.state()})
    for (Weight* weight : list)
      weight->gradient = gradients_.data() + (weight->value - replica_.values().data());
  const Range own =
      share(static_cast<std::size_t>(options_.batch), static_cast<std::size_t>(comm_.rank()),
            static_cast<std::size_t>(comm_.size()));
  inputs_.resize(own.size() * sample_size_);
  labels_.resize(own.size());
  numbers_.resize(own.size());
}

StepResult Dp::run(const Position& done, std::int64_t, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  StepClock clock(result.times, timeline);
  const Pass pass = passOf(options_, done.total);
  const Batch batch = scatter(done);
  clock.lap(&TrainTimes::data, "scatter");
  replicate();
  clock.lap(&TrainTimes::communication, "replicate");
  struct Sums {
    double loss, stops;
  } sums{replica_.network().forward(batch, pass), options_.stop && options_.stop() ? 1.0 : 0.0};
  std::string layer;
  if (!std::isfinite(sums.loss)) layer = replica_.network().firstNotFinite();
  clock.lap(&TrainTimes::forward, "forward");
  replica_.network().backward([](std::size_t) {});
  clock.lap(&TrainTimes::backward, "backward");
  gatherGradients();
  comm_.allReduce(&sums, &sums, 2, DataType::float64, ReduceOp::sum);
  requireFinite(comm_, sums.loss, done.total + 1, layer);
  clock.lap(&TrainTimes::communication, "gather");
  result.learning_rate = rateAt(schedule_, static_cast<std::uint64_t>(done.total));
  if (comm_.rank() == 0) {
    float scale = 1.0F / static_cast<float>(options_.batch);
    if (options_.optimizer.clip > 0)
      scale = clip(replica_.weights(), scale, options_.optimizer.clip).scale;
    optimizer_->step(result.learning_rate, scale);
    if (!replica_.state().empty())
      replica_.network().moveState(static_cast<std::size_t>(options_.batch));
    replica_.network().weightsChanged();
  }
  clock.lap(&TrainTimes::optimizer, "optimizer");
  result.loss = sums.loss / options_.batch;
  result.at = after(done, result.loss);
  result.stop = sums.stops > 0;
  result.times.step = whole.read();
  return result;
}

/// Sends each rank its share of the batch that rank 0 loads.
Batch Dp::scatter(const Position& done) {
  const auto ranks = static_cast<std::size_t>(comm_.size());
  const auto total = static_cast<std::size_t>(options_.batch);
  const Scattered floats(total, ranks, sample_size_), single(total, ranks, 1);
  Batch all{};
  if (comm_.rank() == 0) all = samples_.load(done.epoch, done.step, 0);
  comm_.scatterv(all.inputs, floats.blocks(), inputs_.data(), inputs_.size(), DataType::float32, 0);
  comm_.scatterv(all.labels, single.blocks(), labels_.data(), labels_.size(), DataType::uint8, 0);
  comm_.scatterv(all.samples, single.blocks(), numbers_.data(), numbers_.size(), DataType::uint32,
                 0);
  return {labels_.size(), inputs_.data(), labels_.data(), numbers_.data()};
}

/// Sends the values of rank 0 to all ranks.
void Dp::replicate() {
  const std::span<float> values = replica_.values();
  comm_.broadcast(values.data(), values.data(), values.size(), DataType::float32, 0);
  if (comm_.rank() != 0) replica_.network().weightsChanged();
}

/// Sums the gradients of all ranks on rank 0.
void Dp::gatherGradients() {
  comm_.reduce(gradients_.data(), gradients_.data(), gradients_.size(), DataType::float32,
               ReduceOp::sum, 0);
}

std::uint64_t Dp::verify(const std::string& when) {
  replicate();
  return model_.verify(when);
}

double Dp::evaluate() {
  replicate();
  return model_.evaluate();
}

/// Rank 0 holds the whole state of the run.
Snapshot Dp::snapshot() {
  Snapshot all;
  if (comm_.rank() == 0) all.tensors = model_.tensors(*optimizer_);
  return all;
}

void Dp::adopt(const Position& at) {
  optimizer_->setSteps(static_cast<std::uint64_t>(at.total));
  replica_.network().weightsChanged();
}

double Dp::bytesPerStep() const {
  const double values = static_cast<double>(gradients_.size() * sizeof(float));
  const double one = static_cast<double>(sample_size_ * sizeof(float)) + sizeof(std::uint8_t) +
                     sizeof(std::uint32_t);
  const double others = comm_.size() - 1;
  return others * (2 * values + one * options_.batch / comm_.size());
}

} // namespace

extern const StrategyKind dp;
const StrategyKind dp{
    .name = "dp",
    .summary =
        "rank 0 holds the model: each step scatters the batch, replicates, gathers gradients",
    .check = [](const TrainOptions& options, int ranks) { requireParts(options, ranks, "ranks"); },
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<Dp>(setup);
    },
};

} // namespace rondo::training::parallel
