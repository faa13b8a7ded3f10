#include "train/parallel/sharding/model.h"

#include <algorithm>
#include <utility>

#include "rondo/error.h"
#include "train/add.h"
#include "train/parallel/end_work.h"

namespace rondo::training {

namespace {

Blocks blocks(const ShardUnit& unit) { return {unit.counts, unit.offsets}; }

} // namespace

ShardedModel::ShardedModel(Communicator& shards, Communicator* replicas, Network& network,
                           std::uint64_t seed, ShardSettings settings)
    : shards_(shards),
      replicas_(replicas),
      network_(network),
      settings_(std::move(settings)),
      weights_(network.weights()),
      layout_(shardLayout(sizesOf(network.nodes()), static_cast<std::size_t>(shards.size()),
                          settings_.unit_bytes)),
      rank_(static_cast<std::size_t>(shards.rank())),
      units_(layout_.units.size()),
      missing_(units_),
      gathered_(units_),
      reduced_(units_),
      replicated_(units_),
      narrow_gathered_(units_),
      narrow_reduced_(units_) {
  holds_.fill(kNone);
  settings_.optimizer_settings.sum_over_shards = [this](std::span<double> values) {
    shards_.allReduce(values.data(), values.data(), values.size(), DataType::float64,
                      ReduceOp::sum);
  };
  placeWeights();
  cutPieces();
  optimizer_ = makeOptimizer(settings_.optimizer, pieces(), settings_.optimizer_settings);
  for (const StateArray& array : optimizer_->state()) held_.optimizer += array.values.size_bytes();
  initialise(seed);
  narrowOwn();
  network_.shareWeights([this](std::size_t layer) { enter(layer); }, !sharesParameters());
}

/// Pending operations use the buffers. Operations that are pending between steps end without an
/// abort, because all ranks have called them.
ShardedModel::~ShardedModel() {
  for (auto* works : {&gathered_, &reduced_, &replicated_})
    for (Work& work : *works) settle(work);
}

void ShardedModel::settle(Work& work) noexcept {
  endWork(work, {in_step_ ? &shards_ : nullptr, in_step_ ? replicas_ : nullptr},
          "a step of this rank's sharded model");
}

// Memory ------------------------------------------------------------------------------------------

/// Allocates zeroed memory that other ranks of this machine can read in place.
Buffer ShardedModel::take(std::size_t count, std::size_t ModelMemory::*counter) {
  held_.*counter += count * sizeof(float);
  return count > 0 ? shards_.allocate(count * sizeof(float)) : Buffer();
}

void ShardedModel::placeWeights() {
  const std::size_t own = layout_.ownCount(rank_), all = layout_.count;
  std::size_t begin = 0;
  for (const ShardUnit& unit : layout_.units) {
    own_begin_.push_back(begin);
    begin += unit.counts[rank_];
  }
  std::size_t slots = 0;
  for (std::size_t size : ShardSlots::sizes(layout_, settings_.level)) {
    slot_begin_.push_back(slots);
    slots += size;
  }
  values_ = take(sharesParameters() ? own : all, &ModelMemory::parameters);
  gradients_ = take(settings_.level == ShardLevel::optimizer ? all : own, &ModelMemory::gradients);
  if (settings_.micro_batches > 1) sums_ = take(own, &ModelMemory::gradients);
  slots_ = take(slots, &ModelMemory::slots);
  if (settings_.narrow) narrow_values_ = take(own / 2, &ModelMemory::parameters);
  for (std::size_t w = 0; w < weights_.size(); ++w) {
    const std::size_t u = layout_.unit_of_weight[w];
    const std::size_t place = layout_.units[u].places[w - layout_.units[u].weights.begin];
    weights_[w]->value = parameters(u) + place;
    weights_[w]->gradient = gradients(u) + place;
  }
}

void ShardedModel::cutPieces() {
  for (std::size_t w = 0; w < weights_.size(); ++w) {
    const std::size_t u = layout_.unit_of_weight[w];
    const ShardUnit& unit = layout_.units[u];
    const Range own = layout_.piece(w, rank_);
    Weight& piece = pieces_.emplace_back(*weights_[w]);
    piece.shape = {own.size()};
    // If the piece is empty, this address is never read.
    const std::size_t place = unit.places[w - unit.weights.begin] + own.begin;
    const std::size_t offset = own.size() > 0 ? place - unit.offsets[rank_] : 0;
    piece.value = ownParameters(u) + offset;
    piece.gradient = ownGradients(u) + offset;
  }
}

std::vector<Weight*> ShardedModel::pieces() {
  std::vector<Weight*> all;
  for (Weight& piece : pieces_) all.push_back(&piece);
  return all;
}

/// Initialises weight by weight, so that no rank ever holds more of the model than later on.
void ShardedModel::initialise(std::uint64_t seed) {
  std::size_t next = 0;
  network_.initialise(seed, [&](const Weight& weight) {
    // Running statistics and whole parameters are already in place.
    if (next == weights_.size() || !sharesParameters()) return;
    const Range own = layout_.piece(next, rank_);
    std::copy(weight.value + own.begin, weight.value + own.end, pieces_[next].value);
    ++next;
  });
}

float* ShardedModel::slot(std::size_t number) const {
  return static_cast<float*>(slots_.data()) + slot_begin_[number];
}

float* ShardedModel::parameters(std::size_t unit) const {
  if (sharesParameters()) return slot(ShardSlots::parameters(unit));
  return static_cast<float*>(values_.data()) + layout_.units[unit].begin;
}

float* ShardedModel::gradients(std::size_t unit) const {
  if (settings_.level != ShardLevel::optimizer)
    return slot(ShardSlots::gradients(unit, settings_.level));
  return static_cast<float*>(gradients_.data()) + layout_.units[unit].begin;
}

float* ShardedModel::ownParameters(std::size_t unit) const {
  if (sharesParameters()) return static_cast<float*>(values_.data()) + own_begin_[unit];
  return parameters(unit) + layout_.units[unit].offsets[rank_];
}

/// Where the sum over the ranks of the group arrives.
float* ShardedModel::incoming(std::size_t unit) const {
  if (settings_.level != ShardLevel::optimizer)
    return static_cast<float*>(gradients_.data()) + own_begin_[unit];
  return gradients(unit) + layout_.units[unit].offsets[rank_];
}

/// The gradients that the optimizer uses.
float* ShardedModel::ownGradients(std::size_t unit) const {
  if (settings_.micro_batches == 1) return incoming(unit);
  return static_cast<float*>(sums_.data()) + own_begin_[unit];
}

// A step ------------------------------------------------------------------------------------------

void ShardedModel::beginForward() {
  backward_ = false;
  at_ = kNone;
  in_step_ = true;
  if (sharesParameters()) gather(0);
}

void ShardedModel::beginEvaluation() {
  beginForward();
  if (sharesParameters()) return;
  for (Work& work : gathered_) work.wait();
}

void ShardedModel::beginBackward() {
  backward_ = true;
  at_ = kNone;
  replicating_ = units_;
  micro_ = micro_ % settings_.micro_batches + 1;
  for (std::size_t u = 0; u < units_; ++u) missing_[u] = layout_.units[u].weights.size();
}

void ShardedModel::enter(std::size_t layer) {
  passages_.look();
  const std::size_t unit = layout_.unit_of_layer[layer];
  if (unit == at_) return;
  at_ = unit;
  enterUnit(unit);
}

/// Returns when the parameters of the unit have arrived. Starts to gather those of the next unit.
void ShardedModel::enterUnit(std::size_t unit) {
  if (sharesParameters()) {
    // This slot still contains parameters from the forward pass: gradients overwrite them now.
    if (backward_) holds_[ShardSlots::gradients(unit, settings_.level)] = kNone;
    gather(unit);
  }
  gathered_[unit].wait();
  passages_.look();
  gathered_[unit] = {};
  if (std::exchange(narrow_gathered_[unit], 0) != 0)
    narrow_.widen(parameters(unit), layout_.units[unit].count);
  // Wraps around below unit 0, so that next >= units_.
  const std::size_t next = backward_ ? unit - 1 : unit + 1;
  if (sharesParameters() && next < units_) gather(next);
}

/// Gathers into a slot whose old contents are no longer used. Gradients in it may still be in
/// flight: their reduction was called earlier, and collectives run in the order of the calls.
void ShardedModel::gather(std::size_t unit) {
  std::size_t& held = holds_[ShardSlots::parameters(unit)];
  if (held == unit) return;
  held = unit;
  startGather(unit);
}

void ShardedModel::startGather(std::size_t unit) {
  const ShardUnit& of = layout_.units[unit];
  gathered_elements_ += of.count;
  narrow_gathered_[unit] = settings_.narrow ? 1 : 0;
  if (settings_.narrow) {
    const auto* const own = static_cast<const std::byte*>(narrow_values_.data());
    gathered_[unit] = shards_.allGathervAsync(
        own + own_begin_[unit] * Narrow::kBytes, of.counts[rank_],
        Narrow::place(parameters(unit), of.count), blocks(of), DataType::bfloat16);
  } else {
    gathered_[unit] = shards_.allGathervAsync(ownParameters(unit), of.counts[rank_],
                                              parameters(unit), blocks(of), DataType::float32);
  }
  passages_.begin("gather unit", unit, wireBytes(unit), gathered_[unit]);
}

std::uint64_t ShardedModel::wireBytes(std::size_t unit) const {
  return layout_.units[unit].count * (settings_.narrow ? Narrow::kBytes : sizeof(float));
}

void ShardedModel::gradientReady(std::size_t weight) {
  const std::size_t unit = layout_.unit_of_weight[weight];
  if (--missing_[unit] == 0) reduce(unit);
}

/// Gradients are converted to bfloat16 in place, because the float32 values are no longer needed.
void ShardedModel::startReduce(std::size_t unit) {
  const ShardUnit& of = layout_.units[unit];
  reduced_elements_ += of.count;
  narrow_reduced_[unit] = settings_.narrow ? 1 : 0;
  if (settings_.narrow) {
    narrow_.narrow(gradients(unit), of.count, gradients(unit));
    reduced_[unit] = shards_.reduceScattervAsync(gradients(unit), blocks(of),
                                                 Narrow::place(incoming(unit), of.counts[rank_]),
                                                 DataType::bfloat16, ReduceOp::sum);
  } else {
    reduced_[unit] = shards_.reduceScattervAsync(gradients(unit), blocks(of), incoming(unit),
                                                 DataType::float32, ReduceOp::sum);
  }
  passages_.begin("reduce unit", unit, wireBytes(unit), reduced_[unit]);
}

/// Returns when the sum over the ranks is at incoming().
void ShardedModel::arrived(std::size_t unit) {
  reduced_[unit].wait();
  passages_.look();
  if (std::exchange(narrow_reduced_[unit], 0) != 0)
    narrow_.widen(incoming(unit), layout_.units[unit].counts[rank_]);
}

void ShardedModel::reduce(std::size_t unit) {
  startReduce(unit);
  if (!settings_.overlap) reduced_[unit].wait();
  // The backward pass writes the gradients of unit - 1 into the slot of those of unit + 1.
  if (settings_.level == ShardLevel::gradients && unit + 1 < units_) reduced_[unit + 1].wait();
  if (settings_.micro_batches == 1) replicate(false);
}

/// Starts to add up complete gradients over the groups, from the last unit to the first.
void ShardedModel::replicate(bool all) {
  if (replicas_ == nullptr) return;
  while (replicating_ > 0) {
    const std::size_t unit = replicating_ - 1;
    if (missing_[unit] > 0 || (!all && !reduced_[unit].test())) return;
    arrived(unit);
    float* const own = ownGradients(unit);
    replicated_[unit] = replicas_->allReduceAsync(own, own, layout_.units[unit].counts[rank_],
                                                  DataType::float32, ReduceOp::sum);
    passages_.begin("between groups, unit", unit, layout_.units[unit].counts[rank_] * sizeof(float),
                    replicated_[unit]);
    replicating_ = unit;
  }
}

void ShardedModel::endBackward() {
  for (std::size_t u = units_; u-- > 0;) { // in the order of the calls
    arrived(u);
    reduced_[u] = {};
  }
  if (settings_.micro_batches > 1) addMicroBatch();
  if (micro_ == settings_.micro_batches) replicate(true);
  for (Work& work : replicated_) {
    work.wait();
    passages_.look();
    work = {};
  }
}

void ShardedModel::addMicroBatch() {
  for (std::size_t u = 0; u < units_; ++u) {
    const float* const from = incoming(u);
    float* const to = ownGradients(u);
    const std::size_t count = layout_.units[u].counts[rank_];
    if (micro_ == 1) std::copy(from, from + count, to);
    else add(to, from, count);
  }
}

void ShardedModel::update(double learning_rate, float scale, double clip_limit) {
  if (clip_limit > 0)
    scale = clip(pieces(), scale, clip_limit, settings_.optimizer_settings.sum_over_shards).scale;
  optimizer_->step(learning_rate, scale);
  publish();
  in_step_ = false;
}

void ShardedModel::publish() {
  holds_.fill(kNone);
  narrowOwn();
  network_.weightsChanged();
  if (sharesParameters()) return;
  for (std::size_t u = 0; u < units_; ++u) startGather(u);
}

/// Converts the own parameters to bfloat16 for sending, each time after they change.
void ShardedModel::narrowOwn() {
  if (settings_.narrow)
    narrow_.narrow(static_cast<const float*>(values_.data()), layout_.ownCount(rank_),
                   narrow_values_.data());
}

// Whole parameters --------------------------------------------------------------------------------

void ShardedModel::passAlong() {
  beginEvaluation();
  for (std::size_t u = 0; u < units_; ++u) enterUnit(u);
}

void ShardedModel::visitUnits(
    const std::function<void(const ShardUnit&, const float* values)>& visit) {
  backward_ = false;
  for (std::size_t u = 0; u < units_; ++u) {
    enterUnit(u);
    visit(layout_.units[u], parameters(u));
  }
}

std::vector<ShardedArray> ShardedModel::arrays() {
  std::vector<ShardedArray> all;
  const auto add = [&](const std::string& name, std::size_t w, std::span<float> own) {
    ShardedArray& array = all.emplace_back(ShardedArray{name, weights_[w]->shape, own, {}, {}});
    for (std::size_t r = 0; r < static_cast<std::size_t>(shards_.size()); ++r) {
      const Range piece = layout_.piece(w, r);
      array.counts.push_back(piece.size());
      array.offsets.push_back(piece.begin);
    }
  };
  for (std::size_t w = 0; w < weights_.size(); ++w)
    add("weight." + weights_[w]->name, w, {pieces_[w].value, pieces_[w].size()});
  const std::vector<StateArray> state = optimizer_->state();
  for (std::size_t i = 0; i < state.size(); ++i)
    add("optimizer." + state[i].name, i % weights_.size(), state[i].values);
  return all;
}

} // namespace rondo::training
