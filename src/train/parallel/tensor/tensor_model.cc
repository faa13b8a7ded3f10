#include "train/parallel/tensor/tensor_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/parallel/sharding/layout.h"

namespace rondo::training {

namespace {

bool allFinite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

} // namespace

TensorModel::TensorModel(Communicator& line, const LayerValues& layers, const SampleShape& input,
                         std::uint64_t seed, LayerRange part, Compute compute)
    : line_(line),
      rank_(static_cast<std::size_t>(line.rank())),
      plans_(tensorPlans(layers, input, static_cast<std::size_t>(line.size()))),
      begins_(part.begin == 0),
      ends_(part.end >= layers.size()) {
  makeSegments(input, part, compute);
  findWeights(layers, input, part);
  placeWeights();
  initialise(layers, input, seed, compute);
}

void TensorModel::makeSegments(const SampleShape& input, LayerRange part, Compute compute) {
  const TensorPlan& plan = plans_[rank_];
  for (const LayerRange& range :
       segments(plan, {part.begin, ends_ ? plan.layers.size() : part.end})) {
    Segment& segment = segments_.emplace_back();
    segment.network = std::make_unique<Network>(plan.layers, input, range, compute);
    segment.sums = {plan.sums[range.end - 1].output, plan.sums[range.begin].gradient};
  }
}

/// Finds the weights of these layers among those of the whole model.
void TensorModel::findWeights(const LayerValues& layers, const SampleShape& input,
                              LayerRange part) {
  Weights all;
  const std::vector<Node> nodes = place(layers, input, "", all);
  std::size_t number = 0;
  for (std::size_t layer = 0; layer < nodes.size(); ++layer)
    for (const Weight* weight : nodes[layer].weights) {
      if (layer >= part.begin && layer < part.end)
        whole_.push_back({weight->name, weight->shape, weight->size(), number, kNone});
      ++number;
    }
}

void TensorModel::placeWeights() {
  const auto each = [&](const auto& visit) {
    auto whole = whole_.begin();
    for (Segment& segment : segments_)
      for (Weight* weight : segment.network->weights()) visit(segment, *weight, *whole++);
  };
  const auto owns = [&](const Whole& whole) {
    return plans_[rank_].weights[whole.number].size() > 0;
  };
  std::size_t learned = 0, unlearned = 0;
  each([&](Segment&, const Weight& weight, const Whole& whole) {
    if (owns(whole)) learned += onGrains(weight.size());
    else unlearned = std::max(unlearned, onGrains(weight.size()));
  });
  values_.resize(learned);
  // Zeros for values, and memory for gradients that are never read.
  unlearned_.resize(2 * unlearned);
  float* at = values_.data();
  each([&](Segment& segment, Weight& weight, Whole& whole) {
    if (owns(whole)) whole.place = learned_.size();
    segment.places.push_back(whole.place);
    if (!owns(whole)) {
      weight.value = unlearned_.data();
      weight.gradient = unlearned_.data() + unlearned;
      return;
    }
    weight.value = at;
    at += onGrains(weight.size());
    learned_.push_back(&weight);
  });
}

/// All weights of the whole model are initialised one after the other in the same memory.
void TensorModel::initialise(const LayerValues& layers, const SampleShape& input,
                             std::uint64_t seed, Compute compute) {
  Network all(layers, input, kAllLayers, compute);
  std::size_t largest = 0;
  for (const Weight* weight : all.weights()) largest = std::max(largest, weight->size());
  Floats one(largest);
  for (Weight* weight : all.weights()) weight->value = one.data();
  auto own = whole_.begin();
  all.initialise(seed, [&](const Weight& weight) {
    if (own == whole_.end() || weight.number != own->number) return;
    if (own->place != kNone) take(*own, weight.value, learned_[own->place]->value);
    ++own;
  });
  weightsChanged();
}

void TensorModel::weightsChanged() {
  for (Segment& segment : segments_) segment.network->weightsChanged();
}

const float* TensorModel::sum(Floats& to, const float* values, std::size_t count) {
  to.resize(count);
  const Clock::time_point begin = Clock::now();
  line_.allReduce(values, to.data(), count, DataType::float32, ReduceOp::sum);
  exchanges_.push_back({begin, Clock::now(), count * sizeof(float)});
  return to.data();
}

double TensorModel::forward(const Batch& batch, const Pass& pass, std::size_t slot) {
  exchanges_.clear();
  if (slot >= counts_.size()) counts_.resize(slot + 1);
  counts_[slot] = batch.count;
  Batch at = batch;
  double loss = 0;
  for (Segment& segment : segments_) {
    if (slot >= segment.outputs.size()) segment.outputs.resize(slot + 1);
    Network& network = *segment.network;
    loss = network.forward(at, pass, slot);
    if (ends_ && &segment == &segments_.back()) break;
    at.inputs = network.output(slot);
    if (segment.sums.output)
      at.inputs = sum(segment.outputs[slot], at.inputs, batch.count * network.outputShape().size());
  }
  return loss;
}

const float* TensorModel::output(std::size_t slot) const {
  const Segment& last = segments_.back();
  return last.sums.output ? last.outputs[slot].data() : last.network->output(slot);
}

void TensorModel::backward(const float* gradient, const GradientReady& ready, std::size_t slot) {
  exchanges_.clear();
  for (std::size_t s = segments_.size(); s-- > 0;) {
    Segment& segment = segments_[s];
    Network& network = *segment.network;
    network.backward(
        gradient,
        [&](std::size_t weight) {
          if (segment.places[weight] != kNone) ready(segment.places[weight]);
        },
        slot);
    if (s == 0 && begins_) return;
    gradient = network.inputGradient(slot);
    if (segment.sums.gradient)
      gradient = sum(segment.gradient, gradient, counts_[slot] * network.inputShape().size());
  }
  input_gradient_ = gradient;
}

/// Each rank sees its own features, and sums into which other ranks' bad values have spread. The
/// first bad layer is the earliest one that any rank has seen. If only a sum is not finite, it is
/// attributed to the layer that was summed.
std::string TensorModel::firstNotFinite(std::size_t slot) const {
  std::vector<std::string> layers;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const Segment& segment : segments_) {
    for (const Node& node : segment.network->nodes()) layers.push_back("layer " + node.path);
    std::string bad = segment.network->firstNotFinite(slot);
    if (bad.empty() && segment.sums.output && !allFinite(segment.outputs[slot]))
      bad = layers.back();
    const auto found = std::find(layers.begin(), layers.end(), bad);
    if (found == layers.end()) continue;
    first = std::min(first, static_cast<std::uint64_t>(found - layers.begin()));
  }
  line_.allReduce(&first, &first, 1, DataType::uint64, ReduceOp::min);
  if (first < layers.size()) return layers[first];
  return ends_ ? "the loss" : "";
}

/// Evaluates all segments but the last, and returns the input of the last one.
Batch TensorModel::evaluateFront(const Batch& batch) {
  exchanges_.clear();
  Batch at = batch;
  for (std::size_t s = 0; s + 1 < segments_.size(); ++s) {
    Segment& segment = segments_[s];
    at.inputs = segment.network->evaluateOutput(at);
    if (segment.sums.output)
      at.inputs =
          sum(segment.evaluated, at.inputs, batch.count * segment.network->outputShape().size());
  }
  return at;
}

Score TensorModel::evaluate(const Batch& batch) {
  return segments_.back().network->evaluate(evaluateFront(batch));
}

const float* TensorModel::evaluateOutput(const Batch& batch) {
  Segment& last = segments_.back();
  const float* made = last.network->evaluateOutput(evaluateFront(batch));
  if (!last.sums.output) return made;
  return sum(last.evaluated, made, batch.count * last.network->outputShape().size());
}

void TensorModel::gather(const Whole& weight, std::span<const float> own, float* to) {
  std::vector<std::size_t> counts, offsets;
  std::size_t all = 0;
  for (const TensorPlan& plan : plans_) {
    // A weight that every rank has whole is taken from rank 0.
    const WeightSlice& slice = plan.weights[weight.number];
    counts.push_back(slice.cut == Cut::everywhere && !counts.empty() ? 0 : slice.size());
    offsets.push_back(all);
    all += counts.back();
  }
  Floats parts(rank_ == 0 ? all : 0);
  line_.gatherv(own.data(), counts[rank_], parts.data(), {counts, offsets}, DataType::float32, 0);
  for (std::size_t r = 0; r < plans_.size() && rank_ == 0; ++r)
    if (counts[r] > 0) plans_[r].weights[weight.number].put(parts.data() + offsets[r], to);
}

} // namespace rondo::training
