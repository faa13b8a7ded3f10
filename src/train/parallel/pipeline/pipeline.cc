// Strategy pipeline: rank r has only the r-th stage of the model's layers. The micro-batches of a
// step go through the ranks one after the other, forward and backward, in the order of a timetable.
//
//   sent         when
//   activations  to the rank of the next part, after the forward pass of each micro-batch
//   gradients    of a part's input, to the rank of the previous part, after each backward pass
//   2 sums       AllReduce of loss and stop flag after the last pass; with --clip then an Allgather
//                of the norms of the stages
//   statistics   of batch norms, after the last pass: AllReduce between the pipelines
//   weights'     with --mesh data=D,pipe=P: AllReduce of each bucket of a stage's gradients between
//   gradients    the D pipelines, as soon as the last micro-batch has filled it, while earlier
//                stages still run backward passes (the drain of the pipeline)
//   the same     with --mesh data=D,pipe=P,shard=S: as early, ReduceScatter of each unit between
//                the S ranks that shard the optimizer of the stage, then AllReduce of the shard
//                between the D groups; Allgather of the weights after the update, during the next
//                forward pass (learner.h)
//   sums of      with --mesh pipe=P,tensor=T: AllReduce between the T ranks that form a stage,
//   features     within its passes, as in tensor.cc
//
// With batches of b samples, and a(k) floats between parts k and k + 1 for one sample, all ranks
// together send 2 * 4 b * (sum of a(k) over the cuts) bytes in a step, for any number of
// micro-batches. Weights, gradients and optimizer exist on their own stage only; they are sent only
// for checkpoints and hashes, which rank 0 gathers. N parallel pipelines (N = D or D S), each with
// its share of the batch, send 2 (N-1) M bytes more for M bytes of weights. Along tensor a rank has
// a slice of the features of its stage. At a cut between a layer cut by columns and one cut by rows
// it sends its slice, at other cuts all features. If T ranks sum f floats for one sample (counting
// recomputed passes twice), they send 2 (T-1) 4 b f bytes more (traffic.h).
//
// Every order sums gradients from the first micro-batch to the last, so that a step has the same
// bits as one rank that accumulates the same micro-batches. Batch norm uses the statistics of a
// micro-batch. The files kinds/*.cc name the papers.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "rondo/detail/hash.h"
#include "train/loop/agreement.h"
#include "train/loop/settings.h"
#include "train/models/model.h"
#include "train/parallel/finite.h"
#include "train/parallel/pipeline/learner.h"
#include "train/parallel/pipeline/prepare.h"
#include "train/parallel/pipeline/staged_tensors.h"
#include "train/parallel/pipeline/traffic.h"
#include "train/parallel/recipe.h"
#include "train/parallel/samples.h"
#include "train/parallel/strategy.h"

namespace rondo::training::parallel {

namespace {

/// Hashes like Replica::hash(): each weight is padded to whole cache lines, and running statistics
/// come after the weights.
std::uint64_t replicaHash(const CutModel& model, const std::vector<TensorMemory>& tensors) {
  Weights order;
  place(model.layers, model.input, "", order);
  std::map<std::string, const TensorMemory*> by_name;
  for (const TensorMemory& one : tensors) by_name[one.label.name] = &one;
  detail::HashStream stream;
  const auto add = [&](const std::deque<Weight>& weights, const std::string& kind) {
    constexpr std::size_t kLine = kAlignment / sizeof(float);
    for (const Weight& weight : weights) {
      const auto* from = static_cast<const float*>(by_name.at(kind + weight.name)->data);
      std::vector<float> padded(from, from + weight.size());
      padded.resize((padded.size() + kLine - 1) / kLine * kLine);
      stream.add(padded.data(), padded.size() * sizeof(float));
    }
  };
  add(order.learned, "weight.");
  add(order.state, "state.");
  return stream.hash();
}

class Pipeline : public Strategy {
 public:
  explicit Pipeline(const Setup& setup);

  StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) override;
  std::uint64_t verify(const std::string& when) override;
  double evaluate() override;
  Snapshot snapshot() override;
  void adopt(const Position& at) override;
  double bytesPerStep() const override;
  void tell(TrainReport& report) override;

 private:
  std::vector<UnitTime> agreeOnTimes();
  double passes(const Position& done, StepClock& clock);
  void update(double learning_rate);
  void addOverStages(std::span<double> sums);
  bool isLineLeader() const { return !line_ || line_->rank() == 0; }
  void tellMemory(TrainReport& report);
  void countIdle(const TrainTimes& times, double span);
  std::vector<TensorMemory> valueTensors() const;
  StagedTensors staged(const std::vector<TensorMemory>& own);
  StagedTensors& values();
  void addStatistics();

  Communicator& comm_;
  const TrainOptions& options_;
  const Data& data_;
  const PipelineMesh mesh_;
  /// The stages of this pipeline; the ranks with the same stage in other pipelines.
  Communicator pipe_, beside_;
  /// The ranks that form this stage together, if there are several.
  std::optional<Communicator> line_;
  const int pipelines_, pipeline_; ///< number of parallel pipelines; which of them this rank is in
  const Timetable timetable_;
  CutModel model_;
  std::unique_ptr<Stage> stage_;
  Samples samples_;
  Loader test_;
  std::unique_ptr<StageLearner> learner_;
  const Schedule schedule_;
  std::optional<StagedTensors> values_; ///< set at first use
  std::optional<StagedTensors> kept_;   ///< from the last snapshot, until the next step
  std::optional<Timetable> test_timetable_;
  int steps_ = 0;              ///< steps of this run
  double busy_ = 0, span_ = 0; ///< milliseconds of this rank, after the first steps
};

/// The first steps build programs and open channels, so their times are not representative.
constexpr int kFirstSteps = 2;

Pipeline::Pipeline(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      data_(setup.data),
      mesh_(pipelineMesh(options_, comm_.size())),
      pipe_(mesh_.mesh.split(comm_, {Axis::pipe})),
      beside_(mesh_.mesh.split(comm_, {Axis::data, Axis::shard})),
      pipelines_(beside_.size()),
      pipeline_(beside_.rank()),
      timetable_(timetable(mesh_.options, pipe_.size())),
      samples_(options_, data_, static_cast<std::size_t>(options_.accumulate * pipelines_)),
      test_(data_.test, data_.statistics, kTestBatch),
      schedule_(schedule(options_, totalSteps(options_, data_))) {
  if (mesh_.mesh.size(Axis::tensor) > 1) line_ = mesh_.mesh.split(comm_, {Axis::tensor});
  requireUnits(options_, data_.train, timetable_.shape); // throws the same error on all ranks
  model_ = cutModel(options_, data_.train, timetable_.shape, agreeOnTimes()).model;
  model_.compute = computeOf(options_.device, options_.precision, comm_);
  const bool shares = mesh_.mesh.size(Axis::shard) > 1;
  if (shares) model_.seed.reset(); // the learner allocates the weights
  agree(comm_, [&]() -> std::string {
    stage_ = std::make_unique<Stage>(pipe_, model_, line_ ? &*line_ : nullptr);
    return {};
  });
  learner_ =
      (shares ? shardedLearner : wholeLearner)({comm_, beside_, mesh_.mesh, options_, *stage_});
}

/// Rank 0 measures while the others wait: all ranks must cut the model alike, and concurrent
/// measurements would disturb each other.
std::vector<UnitTime> Pipeline::agreeOnTimes() {
  std::vector<UnitTime> times(
      units(model(options_.model, data_.train.shape, data_.train.classes)).size());
  agree(comm_, [&]() -> std::string {
    if (comm_.rank() == 0) times = measureUnits(mesh_, data_.train);
    return {};
  });
  static_assert(sizeof(UnitTime) == 2 * sizeof(double));
  comm_.broadcast(times.data(), times.data(), 2 * times.size(), DataType::float64, 0);
  return times;
}

StepResult Pipeline::run(const Position& done, std::int64_t, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  std::array<double, 2> sums = {0, options_.stop && options_.stop() ? 1.0 : 0.0};
  StepClock clock(result.times, timeline);
  kept_.reset(); // the next line invalidates its memory
  learner_->begin(timeline);
  const double loss = passes(done, clock);
  if (isLineLeader()) sums[0] = loss;
  if (!options_.gradients.overlap) pipe_.barrier();
  learner_->wait();
  addStatistics();
  comm_.allReduce(sums.data(), sums.data(), sums.size(), DataType::float64, ReduceOp::sum);
  clock.lap(&TrainTimes::communication, nullptr);
  countIdle(result.times, whole.read());
  requireFinite(comm_, sums[0], done.total + 1,
                std::isfinite(sums[0]) ? "" : stage_->firstNotFinite());
  result.learning_rate = rateAt(schedule_, static_cast<std::uint64_t>(done.total));
  update(result.learning_rate);
  clock.lap(&TrainTimes::optimizer, "optimizer");
  result.loss = sums[0] / options_.batch;
  result.at = after(done, result.loss);
  result.stop = sums[1] > 0;
  result.times.step = whole.read();
  return result;
}

/// Returns this stage's part of the loss: all of it on the last stage, else 0.
double Pipeline::passes(const Position& done, StepClock& clock) {
  const auto count = static_cast<std::size_t>(options_.accumulate);
  const std::size_t first = static_cast<std::size_t>(pipeline_) * count;
  const MicroBatches micro_batches{
      .counts = std::vector<std::size_t>(count, microBatch(mesh_.options)),
      .load = [&](int micro, bool inputs) {
        const auto part = first + static_cast<std::size_t>(micro);
        return inputs ? samples_.load(done.epoch, done.step, part)
                      : samples_.loadLabels(done.epoch, done.step, part);
      }};
  return stage_->train(timetable_,
                       {.micro_batches = micro_batches,
                        .pass = passOf(options_, done.total),
                        .sum = [this](std::size_t weight) { return learner_->gradient(weight); },
                        .ready = [this](std::size_t weight) { learner_->ready(weight); }},
                       clock);
}

void Pipeline::update(double learning_rate) {
  stage_->moveState(static_cast<std::size_t>(options_.batch));
  learner_->update(learning_rate, 1.0F / static_cast<float>(options_.batch),
                   options_.optimizer.clip,
                   [this](std::span<double> sums) { addOverStages(sums); });
}

/// Adds up the statistics of the batches over all pipelines.
void Pipeline::addStatistics() {
  if (pipelines_ == 1) return;
  for (std::span<float> part : stage_->statistics())
    beside_.allReduce(part.data(), part.data(), part.size(), DataType::float32, ReduceOp::sum);
}

/// Adds in rank order, so that all ranks get the same sum.
void Pipeline::addOverStages(std::span<double> sums) {
  const auto ranks = static_cast<std::size_t>(pipe_.size());
  std::vector<double> all(ranks * sums.size());
  pipe_.allGather(sums.data(), all.data(), sums.size(), DataType::float64);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) sums[i] += all[rank * sums.size() + i];
  }
}

void Pipeline::countIdle(const TrainTimes& times, double span) {
  if (++steps_ == kFirstSteps) stage_->forgetTimes();
  if (steps_ <= kFirstSteps) return;
  busy_ += times.data + times.forward + times.backward;
  span_ += span;
}

/// The hash equals Replica::hash(): the first rank of each pipeline gathers the values and hashes
/// them in the order of a replica.
std::uint64_t Pipeline::verify(const std::string& when) {
  learner_->settle();
  agree(comm_, [&]() -> std::string {
    for (const TensorMemory& one : valueTensors()) {
      const auto* const floats = static_cast<const float*>(one.data);
      if (!std::all_of(floats, floats + one.label.bytes() / sizeof(float),
                       [](float value) { return std::isfinite(value); }))
        throw Error(ErrorCode::aborted, when + ": the values of " +
                                            one.label.name.substr(one.label.name.find('.') + 1) +
                                            " are not finite");
    }
    return {};
  });
  values().gather();
  const std::string different = values().firstDifference();
  std::uint64_t hash = 0;
  agree(comm_, [&]() -> std::string {
    if (!different.empty()) throw Error(ErrorCode::mismatch, unequalText(when, different));
    if (pipe_.rank() == 0 && isLineLeader()) hash = replicaHash(model_, values().tensors());
    return {};
  });
  if (line_) line_->broadcast(&hash, &hash, 1, DataType::uint64, 0);
  pipe_.broadcast(&hash, &hash, 1, DataType::uint64, 0);
  compareHashes(comm_, hash, when);
  return hash;
}

/// Each pipeline evaluates some of the batches.
double Pipeline::evaluate() {
  learner_->settle();
  const std::size_t samples = data_.test.size();
  const Range own =
      share((samples + kTestBatch - 1) / kTestBatch, static_cast<std::size_t>(pipeline_),
            static_cast<std::size_t>(pipelines_));
  MicroBatches batches{.counts = {}, .load = [&](int batch, bool inputs) {
                         const std::size_t begin =
                             (own.begin + static_cast<std::size_t>(batch)) * kTestBatch;
                         const std::size_t count = std::min(kTestBatch, samples - begin);
                         return inputs ? test_.load(begin, count) : test_.loadLabels(begin, count);
                       }};
  for (std::size_t batch = own.begin; batch < own.end; ++batch)
    batches.counts.push_back(std::min(kTestBatch, samples - batch * kTestBatch));
  if (!test_timetable_ && own.size() > 0) {
    PipelineShape shape = timetable_.shape;
    shape.micro_batches = static_cast<int>(batches.counts.size());
    test_timetable_ = evaluationTimetable(shape);
  }
  std::uint64_t correct = test_timetable_ ? stage_->evaluate(*test_timetable_, batches) : 0;
  if (!isLineLeader()) correct = 0;
  comm_.allReduce(&correct, &correct, 1, DataType::uint64, ReduceOp::sum);
  return static_cast<double>(correct) / static_cast<double>(samples);
}

std::vector<TensorMemory> Pipeline::valueTensors() const {
  std::vector<TensorMemory> all;
  for (const Weight* weight : stage_->weights())
    all.push_back({{"weight." + weight->name, weight->shape}, weight->value});
  for (const Weight* weight : stage_->state())
    all.push_back({{"state." + weight->name, weight->shape}, weight->value});
  return all;
}

/// With tensor slices, the first rank of a line has the whole tensors.
StagedTensors Pipeline::staged(const std::vector<TensorMemory>& own) {
  if (!line_) return {pipe_, own, nullptr};
  return {pipe_, {}, std::make_unique<SlicedTensors>(*line_, stage_->sliced(), own)};
}

StagedTensors& Pipeline::values() {
  if (!values_) values_.emplace(staged(valueTensors()));
  return *values_;
}

Snapshot Pipeline::snapshot() {
  learner_->settle();
  kept_.emplace(staged(learner_->gather()));
  values().gather();
  kept_->gather();
  Snapshot all{.tensors = values_->tensors()};
  all.tensors.insert(all.tensors.end(), kept_->tensors().begin(), kept_->tensors().end());
  return all;
}

void Pipeline::adopt(const Position& at) {
  for (StagedTensors* staged : {&*values_, &*kept_}) {
    // Rank 0 sends its values to the first ranks of the other pipelines.
    for (const TensorMemory& one : staged->tensors())
      if (pipe_.rank() == 0)
        beside_.broadcast(one.data, one.data, one.label.bytes() / sizeof(float), DataType::float32,
                          0);
    staged->scatter();
  }
  learner_->adopt(static_cast<std::uint64_t>(at.total));
}

double Pipeline::bytesPerStep() const { return training::bytesPerStep(mesh_, model_, timetable_); }

/// In addition to what the learner holds, a stage has gradient memory for one more micro-batch.
void Pipeline::tellMemory(TrainReport& report) {
  std::uint64_t bytes = learner_->heldBytes();
  for (const Weight* weight : stage_->weights()) bytes += weight->size() * sizeof(float);
  comm_.allReduce(&bytes, &bytes, 1, DataType::uint64, ReduceOp::max);
  report.held_bytes = bytes;
}

void Pipeline::tell(TrainReport& report) {
  tellMemory(report);
  const auto parts = static_cast<std::size_t>(timetable_.shape.parts());
  const int alike = comm_.size() / pipe_.size();
  // Each entry is the sum over the ranks that have the part.
  std::vector<double> sums(2 * parts + 2);
  for (std::size_t own = 0; own < stage_->times().size(); ++own) {
    const PartTimes& times = stage_->times()[own];
    const std::size_t part =
        own * static_cast<std::size_t>(pipe_.size()) + static_cast<std::size_t>(pipe_.rank());
    if (times.passes == 0) continue;
    sums[2 * part] = times.forward / times.passes / alike;
    sums[2 * part + 1] = times.backward / times.passes / alike;
  }
  sums[2 * parts] = busy_;
  sums[2 * parts + 1] = span_;
  comm_.allReduce(sums.data(), sums.data(), sums.size(), DataType::float64, ReduceOp::sum);
  TrainPipeline& to = report.pipeline;
  PassCosts costs;
  for (std::size_t part = 0; part < parts; ++part) {
    costs.forward.push_back(sums[2 * part]);
    costs.backward.push_back(sums[2 * part + 1]);
    to.parts.push_back({.begin = model_.parts[part].begin,
                        .end = model_.parts[part].end,
                        .forward = costs.forward.back(),
                        .backward = costs.backward.back()});
  }
  to.idle_even = pipelineKind(options_.pipeline.order).idle(timetable_.shape);
  if (sums[2 * parts + 1] == 0) return; // too few steps to tell
  to.idle_predicted = simulate(timetable_, costs).idle();
  to.idle_measured = 1 - sums[2 * parts] / sums[2 * parts + 1];
}

} // namespace

extern const StrategyKind pipeline;
const StrategyKind pipeline{
    .name = "pipeline",
    .summary = "each rank has some of the layers; micro-batches go through the ranks",
    .check =
        [](const TrainOptions& options, int ranks) {
          const PipelineMesh mesh = pipelineMesh(options, ranks);
          timetable(mesh.options, mesh.mesh.size(Axis::pipe));
        },
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<Pipeline>(setup);
    },
    .show = showPipeline,
};

} // namespace rondo::training::parallel
