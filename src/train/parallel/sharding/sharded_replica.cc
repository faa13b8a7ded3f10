#include "train/parallel/sharding/sharded_replica.h"

#include <algorithm>
#include <cmath>

#include "rondo/detail/hash.h"
#include "train/data/sampler.h"
#include "train/loop/agreement.h"
#include "train/loop/elastic.h"
#include "train/parallel/recipe.h"

namespace rondo::training {

namespace {

ShardSettings settings(const TrainOptions& options, ShardLevel level) {
  return {.level = level,
          .unit_bytes = unitBytes(options, level),
          .optimizer = options.optimizer.name,
          .optimizer_settings = optimizerSettings(options),
          .micro_batches = options.accumulate,
          .overlap = options.gradients.overlap,
          .narrow = options.gradients.hook != "none"};
}

} // namespace

ShardedReplica::ShardedReplica(const Setup& setup, ShardLevel level)
    : comm_(setup.comm),
      data_(setup.data),
      mesh_(strategyMesh(setup.options, comm_.size(), Axis::shard)),
      shards_(mesh_.split(comm_, {Axis::shard})),
      test_(data_.test, data_.statistics, kTestBatch) {
  if (mesh_.size(Axis::data) > 1) replicas_ = mesh_.split(comm_, {Axis::data});
  agree(comm_, [&]() -> std::string {
    network_ =
        std::make_unique<Network>(setup.options.model, data_.train.shape, data_.train.classes,
                                  computeOf(setup.options.device, setup.options.precision, comm_));
    checkMemory(setup, level);
    return {};
  });
  placeState();
  model_ = std::make_unique<ShardedModel>(shards_, replicas_ ? &*replicas_ : nullptr, *network_,
                                          setup.options.seed, settings(setup.options, level));
}

/// Checks the rank that holds most, so that all ranks come to the same result. An elastic run is
/// checked with MIN ranks, because it may shrink to them; fewer ranks do not train.
void ShardedReplica::checkMemory(const Setup& setup, ShardLevel level) const {
  const int least = rankLimits(setup.options, shards_.size()).first;
  const auto ranks = static_cast<std::size_t>(least);
  const ShardLayout layout =
      shardLayout(sizesOf(network_->nodes()), ranks, unitBytes(setup.options, level));
  MemoryQuestion question{.level = level,
                          .arrays = optimizerKind(setup.options.optimizer.name).arrays,
                          .accumulates = setup.options.accumulate > 1,
                          .narrow = setup.options.gradients.hook != "none"};
  ModelMemory most;
  for (question.rank = 0; question.rank < ranks; ++question.rank)
    most = std::max(most, predictedMemory(layout, question),
                    [](const auto& a, const auto& b) { return a.total() < b.total(); });
  requireFits(
      setup.options.strategy + (setup.options.elastic.ranks.empty()
                                    ? ""
                                    : " with only " + std::to_string(least) +
                                          (least == 1 ? " rank" : " ranks") + " (MIN of elastic)"),
      most, setup.options.sharding.memory_limit);
}

/// Lays out the state as a Replica does.
void ShardedReplica::placeState() {
  std::size_t count = 0;
  const std::vector<Weight*> state = network_->state();
  for (const Weight* weight : state) count += onGrains(weight->size());
  state_.resize(count);
  statistics_.resize(count);
  std::size_t at = 0;
  for (Weight* weight : state) {
    weight->value = state_.data() + at;
    weight->gradient = statistics_.data() + at;
    at += onGrains(weight->size());
  }
}

std::string ShardedReplica::firstNotFinite(const ShardUnit& unit, const float* values) const {
  const std::vector<Weight*> weights = network_->weights();
  for (std::size_t w = unit.weights.begin; w < unit.weights.end; ++w) {
    const float* const at = values + unit.places[w - unit.weights.begin];
    if (!std::all_of(at, at + weights[w]->size(), [](float value) { return std::isfinite(value); }))
      return weights[w]->name;
  }
  return {};
}

/// The hash equals that of a Replica with these values: it adds unit by unit, in the replica's
/// order.
std::uint64_t ShardedReplica::verify(const std::string& when) {
  detail::HashStream stream;
  std::string bad;
  model_->visitUnits([&](const ShardUnit& unit, const float* values) {
    stream.add(values, unit.count * sizeof(float));
    if (bad.empty()) bad = firstNotFinite(unit, values);
  });
  stream.add(state_.data(), state_.size() * sizeof(float));
  compareHashes(comm_, stream.hash(), when);
  for (const Weight* weight : network_->state())
    for (std::size_t i = 0; i < weight->size() && bad.empty(); ++i)
      if (!std::isfinite(weight->value[i])) bad = weight->name;
  if (!bad.empty())
    throw Error(ErrorCode::aborted, when + ": the values of " + bad + " are not finite");
  return stream.hash();
}

/// Every rank evaluates some of the batches. A rank with one batch less takes part in the
/// collectives of the last one.
double ShardedReplica::evaluate() {
  const std::size_t samples = data_.test.size();
  const std::size_t batches = (samples + kTestBatch - 1) / kTestBatch;
  const auto ranks = static_cast<std::size_t>(comm_.size());
  const Range own = share(batches, static_cast<std::size_t>(comm_.rank()), ranks);
  std::uint64_t correct = 0;
  for (std::size_t i = 0; i < (batches + ranks - 1) / ranks; ++i) {
    if (i >= own.size()) {
      model_->passAlong();
      continue;
    }
    const std::size_t begin = (own.begin + i) * kTestBatch;
    model_->beginEvaluation();
    correct += network_->evaluate(test_.load(begin, std::min(kTestBatch, samples - begin))).correct;
  }
  comm_.allReduce(&correct, &correct, 1, DataType::uint64, ReduceOp::sum);
  return static_cast<double>(correct) / static_cast<double>(samples);
}

std::vector<TensorMemory> ShardedReplica::gather() {
  whole_.clear();
  std::vector<TensorMemory> weights, optimizer;
  const bool writes = comm_.rank() == 0;
  for (ShardedArray& array : model_->arrays()) {
    if (!first()) break; // all groups hold the same arrays
    const TensorLabel label{array.name, array.shape};
    float* whole = nullptr;
    if (writes) whole = whole_.emplace_back(label.bytes() / sizeof(float)).data();
    shards_.gatherv(array.own.data(), array.own.size(), whole, {array.counts, array.offsets},
                    DataType::float32, 0);
    if (writes) (array.name.starts_with("weight.") ? weights : optimizer).push_back({label, whole});
  }
  if (!writes) return {};
  for (const Weight* weight : network_->state())
    weights.push_back({{"state." + weight->name, weight->shape}, weight->value});
  weights.insert(weights.end(), optimizer.begin(), optimizer.end());
  return weights;
}

std::vector<StatePart> ShardedReplica::held() {
  std::vector<StatePart> all;
  const auto rank = static_cast<std::size_t>(shards_.rank());
  for (ShardedArray& array : model_->arrays())
    all.push_back({array.name, array.offsets[rank], array.own});
  for (const Weight* weight : network_->state())
    all.push_back({"state." + weight->name, 0, {weight->value, weight->size()}});
  return all;
}

void ShardedReplica::scatter(std::uint64_t steps) {
  std::size_t next = 0;
  for (ShardedArray& array : model_->arrays()) {
    const float* const whole = comm_.rank() == 0 ? whole_[next++].data() : nullptr;
    if (first())
      shards_.scatterv(whole, {array.counts, array.offsets}, array.own.data(), array.own.size(),
                       DataType::float32, 0);
    if (replicas_)
      replicas_->broadcast(array.own.data(), array.own.data(), array.own.size(), DataType::float32,
                           0);
  }
  comm_.broadcast(state_.data(), state_.data(), state_.size(), DataType::float32, 0);
  model_->optimizer().setSteps(steps);
  model_->publish();
}

} // namespace rondo::training
