// Strategy tensor (tensor parallelism): each rank of a line has a part of the features of every
// linear layer and convolution. All ranks of a line have the same samples.
//
//   sent         when
//   activations  AllReduce of the output of a layer cut by rows, after its forward pass
//   gradients    AllReduce of the gradient of the input of a layer cut by columns, after its
//                backward pass; not for the first layer with weights, where it is not needed
//   slices       AllReduce of their gradients between the lines, as in ddp, with --mesh
//                data=D,tensor=T
//   2 sums       AllReduce of loss and stop flag after the passes
//
// Linear layers and convolutions are cut alternately by columns and by rows (slices.h). With
// batches of b samples, and f floats of activations and gradients summed for one sample, T ranks
// send 2 (T-1) 4 b f bytes in a step. D lines send 2 (D-1) M bytes more for M bytes of weights,
// where weights that all ranks hold whole count T times. A rank holds about 1/T of weights,
// gradients and optimizer. Supports linear layers, convolutions and pools. Sums over ranks are
// added in another order than on one rank, so results equal those of one rank except for rounding.
// The strategy pipeline has an axis tensor for pipelines of such lines.
//
// Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
// Parallelism, 2019, section 3, for its multi-layer perceptron.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "rondo/detail/hash.h"
#include "rondo/gradients.h"
#include "train/loop/agreement.h"
#include "train/loop/replica.h"
#include "train/loop/settings.h"
#include "train/models/model.h"
#include "train/parallel/bucket_lanes.h"
#include "train/parallel/finite.h"
#include "train/parallel/groups.h"
#include "train/parallel/mesh.h"
#include "train/parallel/recipe.h"
#include "train/parallel/samples.h"
#include "train/parallel/sharding/layout.h"
#include "train/parallel/strategy.h"
#include "train/parallel/tensor/plan.h"
#include "train/parallel/tensor/sliced_tensors.h"
#include "train/parallel/tensor/tensor_model.h"

namespace rondo::training::parallel {

namespace {

class Tensor : public Strategy {
 public:
  explicit Tensor(const Setup& setup);

  StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) override;
  std::uint64_t verify(const std::string& when) override;
  double evaluate() override;
  Snapshot snapshot() override;
  void adopt(const Position& at) override;
  double bytesPerStep() const override;
  void tell(TrainReport& report) override;

 private:
  std::vector<TensorMemory> values() const;

  Communicator& comm_;
  const TrainOptions& options_;
  const Data& data_;
  const Mesh mesh_;
  Communicator line_;   ///< the ranks that share one copy of the model, a slice each
  Communicator lines_;  ///< the ranks that have the same slice, one of each copy
  const Groups groups_; ///< communicators of the ranks in lines_
  std::optional<TensorModel> model_;
  Samples samples_;
  Loader test_;
  std::optional<GradientReducer> reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  const Schedule schedule_;
  std::optional<SlicedTensors> whole_; ///< from the last snapshot, until the next step
};

Tensor::Tensor(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      data_(setup.data),
      mesh_(strategyMesh(options_, comm_.size(), Axis::tensor)),
      line_(mesh_.split(comm_, {Axis::tensor})),
      lines_(mesh_.split(comm_, {Axis::data})),
      groups_(lines_, options_.gradients.groups),
      samples_(options_, data_, static_cast<std::size_t>(mesh_.size(Axis::data))),
      test_(data_.test, data_.statistics, kTestBatch),
      schedule_(schedule(options_, totalSteps(options_, data_))) {
  agree(comm_, [&]() -> std::string {
    const Dataset& train = data_.train;
    model_.emplace(line_, model(options_.model, train.shape, train.classes), train.shape,
                   options_.seed, kAllLayers,
                   computeOf(options_.device, options_.precision, comm_));
    optimizer_ =
        makeOptimizer(options_.optimizer.name, model_->weights(), optimizerSettings(options_));
    return {};
  });
  reducer_.emplace(groups_.all(), parametersOf(model_->weights()), reduction(options_));
  for (std::size_t i = 0; i < model_->weights().size(); ++i)
    model_->weights()[i]->gradient = static_cast<float*>(reducer_->gradient(i));
}

StepResult Tensor::run(const Position& done, std::int64_t, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  whole_.reset();
  StepClock clock(result.times, timeline);
  const int line = mesh_.coordinate(Axis::data, comm_.rank());
  const Batch batch = samples_.load(done.epoch, done.step, static_cast<std::size_t>(line));
  clock.lap(&TrainTimes::data, "data");
  const double loss = model_->forward(batch, passOf(options_, done.total), 0);
  clock.lap(&TrainTimes::forward, "forward", model_->exchanges());
  const Clock::time_point reducing = Clock::now();
  reducer_->begin();
  model_->backward(
      nullptr, [this](std::size_t weight) { reducer_->ready(weight); }, 0);
  clock.lap(&TrainTimes::backward, "backward", model_->exchanges());
  reducer_->wait();
  if (timeline) showBuckets(*reducer_, reducing, *timeline);
  // All ranks of a line compute the same loss: it is counted once.
  std::array<double, 2> sums = {line_.rank() == 0 ? loss : 0.0,
                                options_.stop && options_.stop() ? 1.0 : 0.0};
  comm_.allReduce(sums.data(), sums.data(), sums.size(), DataType::float64, ReduceOp::sum);
  clock.lap(&TrainTimes::communication, nullptr);
  requireFinite(comm_, sums[0], done.total + 1,
                std::isfinite(sums[0]) ? "" : model_->firstNotFinite(0));
  result.learning_rate = rateAt(schedule_, static_cast<std::uint64_t>(done.total));
  optimizer_->step(result.learning_rate, 1.0F / static_cast<float>(options_.batch));
  model_->weightsChanged();
  clock.lap(&TrainTimes::optimizer, "optimizer");
  result.loss = sums[0] / options_.batch;
  result.at = after(done, result.loss);
  result.stop = sums[1] > 0;
  result.times.step = whole.read();
  return result;
}

/// Each line evaluates some batches of the test set; its ranks evaluate each batch together.
double Tensor::evaluate() {
  const std::size_t samples = data_.test.size();
  const Range own =
      share((samples + kTestBatch - 1) / kTestBatch, static_cast<std::size_t>(lines_.rank()),
            static_cast<std::size_t>(lines_.size()));
  std::uint64_t correct = 0;
  for (std::size_t batch = own.begin; batch < own.end; ++batch) {
    const std::size_t begin = batch * kTestBatch;
    const Score score = model_->evaluate(test_.load(begin, std::min(kTestBatch, samples - begin)));
    if (line_.rank() == 0) correct += score.correct;
  }
  comm_.allReduce(&correct, &correct, 1, DataType::uint64, ReduceOp::sum);
  return static_cast<double>(correct) / static_cast<double>(samples);
}

std::vector<TensorMemory> Tensor::values() const {
  std::vector<TensorMemory> all;
  for (const Weight* weight : model_->weights())
    all.push_back({{"weight." + weight->name, weight->shape}, weight->value});
  return all;
}

/// The hash equals Replica::hash(): the first rank of each line lays out the values as a replica
/// does.
std::uint64_t Tensor::verify(const std::string& when) {
  SlicedTensors whole(line_, {&*model_}, values());
  whole.gather();
  std::string bad;
  AlignedVector<float> replica;
  for (const TensorMemory& one : whole.tensors()) {
    const auto* const from = static_cast<const float*>(one.data);
    const std::size_t count = one.label.bytes() / sizeof(float);
    if (bad.empty() && !std::all_of(from, from + count, [](float v) { return std::isfinite(v); }))
      bad = one.label.name.substr(one.label.name.find('.') + 1);
    replica.insert(replica.end(), from, from + count);
    replica.resize(onGrains(replica.size()));
  }
  std::uint64_t hash = detail::hashBytes(replica.data(), replica.size() * sizeof(float));
  line_.broadcast(&hash, &hash, 1, DataType::uint64, 0);
  compareHashes(comm_, hash, when);
  const std::string different = whole.firstDifference();
  agree(comm_, [&]() -> std::string {
    if (!bad.empty())
      throw Error(ErrorCode::aborted, when + ": the values of " + bad + " are not finite");
    if (!different.empty()) throw Error(ErrorCode::mismatch, unequalText(when, different));
    return {};
  });
  return hash;
}

Snapshot Tensor::snapshot() {
  std::vector<TensorMemory> own = values();
  for (const StateArray& array : optimizer_->state())
    own.push_back({{"optimizer." + array.name, array.shape}, array.values.data()});
  whole_.emplace(line_, std::vector{&*model_}, own);
  whole_->gather();
  return {.tensors = whole_->tensors()};
}

void Tensor::adopt(const Position& at) {
  if (line_.rank() == 0) // rank 0 sends its values to the first ranks of the other lines
    for (const TensorMemory& one : whole_->tensors())
      lines_.broadcast(one.data, one.data, one.label.bytes() / sizeof(float), DataType::float32, 0);
  whole_->scatter();
  optimizer_->setSteps(static_cast<std::uint64_t>(at.total));
  model_->weightsChanged();
}

double Tensor::bytesPerStep() const {
  const Dataset& train = data_.train;
  return tensorTraffic(tensorPlans(model(options_.model, train.shape, train.classes), train.shape,
                                   static_cast<std::size_t>(line_.size())),
                       train.shape, options_.batch, lines_.size());
}

void Tensor::tell(TrainReport& report) {
  std::uint64_t elements = 0;
  for (const Weight* weight : model_->weights()) elements += onGrains(weight->size());
  for (const GradientBucket& bucket : reducer_->buckets()) elements += bucket.count;
  for (const StateArray& array : optimizer_->state()) elements += array.values.size();
  std::uint64_t bytes = elements * sizeof(float);
  comm_.allReduce(&bytes, &bytes, 1, DataType::uint64, ReduceOp::max);
  report.held_bytes = bytes;
}

} // namespace

extern const StrategyKind tensor;
const StrategyKind tensor{
    .name = "tensor",
    .summary = "each rank has some of the features of all layers, and all samples",
    .check =
        [](const TrainOptions& options, int ranks) {
          requireParts(options, strategyMesh(options, ranks, Axis::tensor).size(Axis::data),
                       "lines of ranks");
          requireSliceable(options);
        },
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<Tensor>(setup);
    },
    .show =
        [](const TrainOptions& options, const Dataset& samples, int ranks) {
          return tensorPlanText(model(options.model, samples.shape, samples.classes), samples.shape,
                                strategyMesh(options, ranks, Axis::tensor), options.batch);
        },
};

} // namespace rondo::training::parallel
