// Allocates a model's weights and running statistics in one aligned array.
#include "train/loop/replica.h"

#include <algorithm>
#include <cmath>

#include "rondo/detail/hash.h"
#include "train/models/model.h"

namespace rondo::training {

namespace {

/// Elements that a weight occupies, so that the next one begins on a cache line.
std::size_t padded(const Weight& weight) {
  constexpr std::size_t kLine = kAlignment / sizeof(float);
  return (weight.size() + kLine - 1) / kLine * kLine;
}

std::size_t total(std::span<Weight* const> weights) {
  std::size_t elements = 0;
  for (const Weight* weight : weights) elements += padded(*weight);
  return elements;
}

} // namespace

std::vector<Parameter> parametersOf(std::span<Weight* const> weights) {
  std::vector<Parameter> all;
  for (const Weight* weight : weights) {
    Parameter& one = all.emplace_back();
    one.name = weight->name;
    one.value = weight->value;
    one.shape = weight->shape;
  }
  return all;
}

Replica::Replica(const std::string& model, const SampleShape& input, std::size_t classes,
                 std::uint64_t seed, Compute compute)
    : Replica(training::model(model, input, classes), input, kAllLayers, seed, compute) {}

Replica::Replica(const LayerValues& layers, const SampleShape& input, LayerRange part,
                 std::optional<std::uint64_t> seed, Compute compute)
    : network_(layers, input, part, compute),
      weights_(network_.weights()),
      state_(network_.state()),
      values_((seed ? total(weights_) : 0) + total(state_)),
      statistics_(total(state_)) {
  float* value = values_.data();
  const auto place = [&](Weight* weight) {
    weight->value = value;
    value += padded(*weight);
  };
  if (seed) std::for_each(weights_.begin(), weights_.end(), place);
  std::for_each(state_.begin(), state_.end(), place);
  float* statistic = statistics_.data();
  for (Weight* weight : state_) {
    weight->gradient = statistic;
    statistic += padded(*weight);
  }
  if (seed) network_.initialise(*seed);
}

std::string Replica::firstNotFinite() const {
  for (const auto* list : {&weights_, &state_})
    for (const Weight* weight : *list)
      if (!std::all_of(weight->value, weight->value + weight->size(),
                       [](float value) { return std::isfinite(value); }))
        return weight->name;
  return {};
}

std::uint64_t Replica::hash() const {
  return detail::hashBytes(values_.data(), values_.size() * sizeof(float));
}

} // namespace rondo::training
