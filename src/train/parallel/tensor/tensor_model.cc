#include "train/parallel/tensor/tensor_model.h"

#include <algorithm>
#include <array>

#include "train/parallel/sharding/layout.h"

namespace rondo::training {

namespace {

constexpr std::size_t kWeight = 0; ///< of a linear layer's two; the other one is its bias

std::size_t sizeOf(const LinearSlice& slice, std::size_t which) {
  return which == kWeight ? slice.weightSize() : slice.biasSize();
}

void put(const LinearSlice& slice, std::size_t which, const float* own, float* whole) {
  if (which == kWeight) slice.putWeight(own, whole);
  else std::copy(own, own + slice.biasSize(), whole + slice.biasRange().begin);
}

} // namespace

TensorModel::TensorModel(Communicator& line, const LayerValues& layers, const SampleShape& input,
                         std::uint64_t seed)
    : line_(line), rank_(static_cast<std::size_t>(line.rank())) {
  const auto ranks = static_cast<std::size_t>(line.size());
  for (std::size_t r = 0; r < ranks; ++r) plans_.push_back(tensorPlan(layers, input, ranks, r));
  makeSegments();
  placeWeights();
  initialise(layers, input, seed);
}

/// A network of some of a model's layers begins and ends with an exchange: a Flatten in front of
/// them and one behind stand for the layers that are not there.
void TensorModel::makeSegments() {
  const std::vector<TensorSegment>& plans = plans_[rank_].segments;
  for (std::size_t s = 0; s < plans.size(); ++s) {
    Segment& segment = segments_.emplace_back();
    segment.plan = plans[s];
    LayerValues layers = plans[s].layers;
    LayerRange part{0, layers.size()};
    if (s > 0) {
      layers.insert(layers.begin(), Flatten{});
      part = {1, layers.size()};
    }
    if (s + 1 < plans.size()) layers.emplace_back(Flatten{});
    segment.network = std::make_unique<Network>(layers, plans[s].in, part);
  }
}

void TensorModel::placeWeights() {
  std::size_t learned = 0, unlearned = 0, number = 0;
  const auto each = [&](const auto& visit) {
    number = 0;
    for (Segment& segment : segments_)
      for (Weight* weight : segment.network->weights()) {
        const LinearSlice& slice = plans_[rank_].linears[number / 2];
        visit(segment, *weight, slice, number % 2 == kWeight || slice.has_bias);
        ++number;
      }
  };
  each([&](Segment&, Weight& weight, const LinearSlice&, bool own) {
    if (own) learned += onGrains(weight.size());
    else unlearned = std::max(unlearned, onGrains(weight.size()));
  });
  values_.resize(learned);
  unlearned_.resize(2 * unlearned); // zeros to read, and what nobody reads
  float* at = values_.data();
  each([&](Segment& segment, Weight& weight, const LinearSlice&, bool own) {
    place_.push_back(own ? learned_.size() : kNone);
    segment.places.push_back(place_.back());
    if (!own) {
      weight.value = unlearned_.data();
      weight.gradient = unlearned_.data() + unlearned;
      return;
    }
    weight.value = at;
    at += onGrains(weight.size());
    learned_.push_back(&weight);
  });
}

/// The whole model's weights are written one after the other to the same place.
void TensorModel::initialise(const LayerValues& layers, const SampleShape& input,
                             std::uint64_t seed) {
  Network all(layers, input);
  std::size_t largest = 0, next = 0;
  for (const Weight* weight : all.weights()) largest = std::max(largest, weight->size());
  AlignedVector<float> one(largest);
  for (Weight* weight : all.weights()) {
    weight->value = one.data();
    whole_.push_back({weight->name, weight->shape, weight->size()});
    if (place_[next] != kNone) learned_[place_[next]]->name = weight->name;
    ++next;
  }
  next = 0;
  all.initialise(seed, [&](const Weight& weight) {
    if (place_[next] != kNone) take(next, weight.value, learned_[place_[next]]->value);
    ++next;
  });
  weightsChanged();
}

void TensorModel::weightsChanged() {
  for (Segment& segment : segments_) segment.network->weightsChanged();
}

void TensorModel::sum(AlignedVector<float>& to, const float* values, std::size_t count,
                      bool over_ranks) {
  to.resize(count);
  if (over_ranks) line_.allReduce(values, to.data(), count, DataType::float32, ReduceOp::sum);
  else std::copy(values, values + count, to.begin());
}

double TensorModel::forward(const Batch& batch, const Pass& pass) {
  Batch at = batch;
  count_ = batch.count;
  double loss = 0;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    Network& network = *segments_[s].network;
    loss = network.forward(at, pass);
    if (s + 1 == segments_.size()) break;
    AlignedVector<float>& next = segments_[s + 1].input;
    sum(next, network.output(0), count_ * network.outputShape().size(),
        segments_[s].plan.sums_output);
    at.inputs = next.data();
  }
  return loss;
}

void TensorModel::backward(const Ready& ready) {
  const float* gradient = nullptr;
  for (std::size_t s = segments_.size(); s-- > 0;) {
    Segment& segment = segments_[s];
    Network& network = *segment.network;
    network.backward(
        gradient,
        [&](std::size_t weight) {
          if (segment.places[weight] != kNone) ready(segment.places[weight]);
        },
        0);
    if (s == 0) return;
    sum(segment.gradient, network.inputGradient(0), count_ * network.inputShape().size(),
        segment.plan.sums_gradient);
    gradient = segment.gradient.data();
  }
}

Score TensorModel::evaluate(const Batch& batch) {
  Batch at = batch;
  for (std::size_t s = 0; s + 1 < segments_.size(); ++s) {
    Network& network = *segments_[s].network;
    sum(segments_[s + 1].input, network.evaluateOutput(at),
        batch.count * network.outputShape().size(), segments_[s].plan.sums_output);
    at.inputs = segments_[s + 1].input.data();
  }
  return segments_.back().network->evaluate(at);
}

std::size_t TensorModel::summedFloats() const {
  std::size_t floats = 0;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    if (segments_[s].plan.sums_output) floats += segments_[s].network->outputShape().size();
    if (s > 0 && segments_[s].plan.sums_gradient)
      floats += segments_[s].network->inputShape().size();
  }
  return floats;
}

std::size_t TensorModel::learnedFloats() const {
  std::size_t floats = 0;
  for (const TensorPlan& plan : plans_)
    for (const LinearSlice& slice : plan.linears) floats += slice.weightSize() + slice.biasSize();
  return floats;
}

void TensorModel::take(std::size_t weight, const float* from, float* own) const {
  const LinearSlice& slice = plans_[rank_].linears[weight / 2];
  if (weight % 2 == kWeight) return slice.takeWeight(from, own);
  const Range range = slice.biasRange();
  std::copy(from + range.begin, from + range.end, own);
}

void TensorModel::gather(std::size_t weight, std::span<const float> own, float* to) {
  std::vector<std::size_t> counts, offsets;
  std::size_t all = 0;
  for (const TensorPlan& plan : plans_) {
    // A layer that is whole everywhere comes from rank 0.
    const LinearSlice& slice = plan.linears[weight / 2];
    const bool again = slice.cut == LinearCut::whole && !counts.empty();
    counts.push_back(again ? 0 : sizeOf(slice, weight % 2));
    offsets.push_back(all);
    all += counts.back();
  }
  AlignedVector<float> parts(rank_ == 0 ? all : 0);
  line_.gatherv(own.data(), counts[rank_], parts.data(), {counts, offsets}, DataType::float32, 0);
  for (std::size_t r = 0; r < plans_.size() && rank_ == 0; ++r)
    if (counts[r] > 0)
      put(plans_[r].linears[weight / 2], weight % 2, parts.data() + offsets[r], to);
}

} // namespace rondo::training
