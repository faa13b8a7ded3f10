// Tensor parallel: the ranks of a line have parts of the features of every linear layer, and the
// same samples.
//
//   sent         when
//   activations  AllReduce of what a layer cut by rows makes, behind it, forward
//   gradients    AllReduce of the gradient of what goes into a layer cut by columns, behind it,
//   back weights'     AllReduce of the slices' gradients between the lines, as in ddp, with --mesh
//   gradients    data=D,tensor=T
//   2 sums       AllReduce of loss and stop flag behind the passes
//
// Linear layers are cut by columns and by rows in turn (slices.h). With batches of b samples and f
// floats of activations and gradients summed up for one sample, T ranks send 2 (T-1) 4 b f bytes in
// a step, and D lines 2 (D-1) M for M bytes of weights, those counted T times that are whole on all
// ranks. A rank holds about 1/T of weights, gradients and optimizer. For models of linear
// layers; sums over the ranks stand in another order than one rank's, so results are those of one
// rank but for rounding.
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
  std::vector<Parameter> parameters() const;
  void aim();
  void update(double learning_rate);
  void gatherInto(std::vector<TensorMemory>& all, const std::string& kind,
                  const std::vector<std::span<float>>& arrays);
  std::vector<std::span<float>> values() const;

  Communicator& comm_;
  const TrainOptions& options_;
  const Data& data_;
  const Mesh mesh_;
  Communicator line_, lines_; ///< of one copy of the model; of those with the same slices
  const Groups groups_;       ///< of the latter
  std::optional<TensorModel> model_;
  Samples samples_;
  Loader test_;
  std::optional<GradientReducer> reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  const Schedule schedule_;
  std::vector<AlignedVector<float>> whole_; ///< of the last snapshot, on rank 0
};

Tensor::Tensor(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      data_(setup.data),
      mesh_(strategyMesh(options_, comm_.size(), Axis::tensor)),
      line_(mesh_.split(comm_, {Axis::tensor})),
      lines_(mesh_.split(comm_, {Axis::data})),
      groups_(lines_, options_.groups),
      samples_(options_, data_, static_cast<std::size_t>(mesh_.size(Axis::data))),
      test_(data_.test, data_.statistics, kTestBatch),
      schedule_(schedule(options_, totalSteps(options_, data_))) {
  agree(comm_, [&]() -> std::string {
    const Dataset& train = data_.train;
    model_.emplace(line_, model(options_.model, train.shape, train.classes), train.shape,
                   options_.seed);
    optimizer_ = makeOptimizer(options_.optimizer, model_->weights(), optimizerSettings(options_));
    return {};
  });
  GradientOptions reduction;
  reduction.average = false;
  reduction.follow_observed_order = false;
  reduction.bucket_bytes = options_.bucket_bytes;
  reduction.overlap = options_.overlap;
  reducer_.emplace(groups_.all(), parameters(), reduction);
  for (std::size_t i = 0; i < model_->weights().size(); ++i)
    model_->weights()[i]->gradient = static_cast<float*>(reducer_->gradient(i));
}

std::vector<Parameter> Tensor::parameters() const {
  std::vector<Parameter> all;
  for (const Weight* weight : model_->weights()) {
    Parameter& one = all.emplace_back();
    one.name = weight->name;
    one.value = weight->value;
    one.shape = weight->shape;
  }
  return all;
}

StepResult Tensor::run(const Position& done, std::int64_t, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  whole_.clear();
  StepClock clock(result.times, timeline);
  const int line = mesh_.coordinate(Axis::data, comm_.rank());
  const Batch batch = samples_.load(done.epoch, done.step, static_cast<std::size_t>(line));
  clock.lap(&TrainTimes::data, "data");
  const auto number = static_cast<std::uint64_t>(done.total);
  const double loss = model_->forward(
      batch, {.seed = detail::mix(options_.seed + detail::mix(number)), .sum_over_ranks = {}});
  clock.lap(&TrainTimes::forward, "forward");
  const Clock::time_point reducing = Clock::now();
  reducer_->begin();
  model_->backward([this](std::size_t weight) { reducer_->ready(weight); });
  clock.lap(&TrainTimes::backward, "backward");
  reducer_->wait();
  if (timeline) showBuckets(*reducer_, reducing, *timeline);
  // All ranks of a line have the same loss: it is counted once.
  std::array<double, 2> sums = {line_.rank() == 0 ? loss : 0.0,
                                options_.stop && options_.stop() ? 1.0 : 0.0};
  comm_.allReduce(sums.data(), sums.data(), sums.size(), DataType::float64, ReduceOp::sum);
  clock.lap(&TrainTimes::communication, nullptr);
  requireFinite(comm_, sums[0], done.total + 1, "");
  result.learning_rate = rateAt(schedule_, number);
  optimizer_->step(result.learning_rate, 1.0F / static_cast<float>(options_.batch));
  model_->weightsChanged();
  clock.lap(&TrainTimes::optimizer, "optimizer");
  result.loss = sums[0] / options_.batch;
  result.at = after(done, result.loss);
  result.stop = sums[1] > 0;
  result.times.step = whole.read();
  return result;
}

/// The lines share the batches of the test set out; the ranks of a line go through each together.
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

std::vector<std::span<float>> Tensor::values() const {
  std::vector<std::span<float>> all;
  for (const Weight* weight : model_->weights()) all.emplace_back(weight->value, weight->size());
  return all;
}

/// Gathers, on the line's first rank, an array beside each weight of the whole model into memory
/// of whole_; `arrays` are this rank's, beside weights().
void Tensor::gatherInto(std::vector<TensorMemory>& all, const std::string& kind,
                        const std::vector<std::span<float>>& arrays) {
  for (std::size_t w = 0; w < model_->whole().size(); ++w) {
    const TensorModel::Whole& weight = model_->whole()[w];
    const std::size_t place = model_->place(w);
    const std::span<float> own = place == TensorModel::kNone ? std::span<float>() : arrays[place];
    AlignedVector<float>* to = line_.rank() == 0 ? &whole_.emplace_back(weight.size) : nullptr;
    model_->gather(w, own, to ? to->data() : nullptr);
    if (to) all.push_back({{kind + weight.name, weight.shape}, to->data()});
  }
}

/// As Replica::hash(), of values that each line's first rank puts where a replica has them.
std::uint64_t Tensor::verify(const std::string& when) {
  std::vector<TensorMemory> all;
  gatherInto(all, "weight.", values());
  std::string bad;
  AlignedVector<float> replica;
  for (const TensorMemory& one : all) {
    const auto* const from = static_cast<const float*>(one.data);
    const std::size_t count = one.label.bytes() / sizeof(float);
    if (bad.empty() && !std::all_of(from, from + count, [](float v) { return std::isfinite(v); }))
      bad = one.label.name.substr(one.label.name.find('.') + 1);
    replica.insert(replica.end(), from, from + count);
    replica.resize(onGrains(replica.size()));
  }
  whole_.clear();
  std::uint64_t hash = detail::hashBytes(replica.data(), replica.size() * sizeof(float));
  line_.broadcast(&hash, &hash, 1, DataType::uint64, 0);
  compareHashes(comm_, hash, when);
  agree(comm_, [&]() -> std::string {
    if (bad.empty()) return {};
    throw Error(ErrorCode::aborted, when + ": the values of " + bad + " are not finite");
  });
  return hash;
}

Snapshot Tensor::snapshot() {
  whole_.clear();
  Snapshot all;
  gatherInto(all.tensors, "weight.", values());
  const std::vector<StateArray> state = optimizer_->state();
  const std::size_t own = model_->weights().size();
  for (std::size_t first = 0; first < state.size(); first += own) {
    std::vector<std::span<float>> arrays;
    for (std::size_t i = 0; i < own; ++i) arrays.push_back(state[first + i].values);
    const std::string& of = state[first].name;
    gatherInto(all.tensors, "optimizer." + of.substr(0, of.find('.') + 1), arrays);
  }
  return all;
}

void Tensor::adopt(const Position& at) {
  std::vector<std::span<float>> arrays = values();
  for (const StateArray& array : optimizer_->state()) arrays.push_back(array.values);
  const std::size_t weights = model_->whole().size(), own = model_->weights().size();
  AlignedVector<float> whole;
  for (std::size_t i = 0; i < arrays.size() / own * weights; ++i) {
    whole.resize(model_->whole()[i % weights].size);
    if (comm_.rank() == 0) std::copy(whole_[i].begin(), whole_[i].end(), whole.begin());
    comm_.broadcast(whole.data(), whole.data(), whole.size(), DataType::float32, 0);
    const std::size_t place = model_->place(i % weights);
    if (place != TensorModel::kNone)
      model_->take(i % weights, whole.data(), arrays[i / weights * own + place].data());
  }
  optimizer_->setSteps(static_cast<std::uint64_t>(at.total));
  model_->weightsChanged();
}

double Tensor::bytesPerStep() const {
  const double line =
      2.0 * (line_.size() - 1) * static_cast<double>(model_->summedFloats()) * options_.batch;
  const double lines = 2.0 * (lines_.size() - 1) * static_cast<double>(model_->learnedFloats());
  return sizeof(float) * (line + lines);
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
    .summary = "each rank some of the features of all linear layers, and all samples",
    .takes = {"bucket_bytes", "overlap", "groups", "mesh"},
    .check =
        [](const TrainOptions& options, int ranks) {
          requireParts(options, strategyMesh(options, ranks, Axis::tensor).size(Axis::data),
                       "lines of ranks");
          if (options.optimizer == "lars")
            throw Error(ErrorCode::invalid_argument,
                        "train: optimizer lars with strategy tensor: the lengths that it needs are "
                        "of whole weights");
        },
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<Tensor>(setup);
    },
};

} // namespace rondo::training::parallel
