#include "train/parallel/tensor/slices.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "rondo/error.h"

namespace rondo::training {

std::size_t LinearSlice::weightSize() const {
  return own.size() * (cut == LinearCut::rows ? outputs : inputs);
}

Range LinearSlice::biasRange() const {
  if (!has_bias) return {0, 0};
  return cut == LinearCut::columns ? own : Range{0, outputs};
}

void LinearSlice::takeWeight(const float* whole, float* own_values) const {
  if (cut != LinearCut::rows) {
    std::copy(whole + own.begin * inputs, whole + own.end * inputs, own_values);
    return;
  }
  for (std::size_t o = 0; o < outputs; ++o)
    std::copy(whole + o * inputs + own.begin, whole + o * inputs + own.end,
              own_values + o * own.size());
}

void LinearSlice::putWeight(const float* own_values, float* whole) const {
  if (cut != LinearCut::rows) {
    std::copy(own_values, own_values + weightSize(), whole + own.begin * inputs);
    return;
  }
  for (std::size_t o = 0; o < outputs; ++o)
    std::copy(own_values + o * own.size(), own_values + (o + 1) * own.size(),
              whole + o * inputs + own.begin);
}

namespace {

[[noreturn]] void refuse(std::size_t layer, const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              "train: strategy tensor: layer " + std::to_string(layer) + " " + what);
}

/// Writes the plan layer by layer.
class Cutter {
 public:
  Cutter(const SampleShape& input, std::size_t ranks, std::size_t rank, std::size_t linears)
      : ranks_(ranks), rank_(rank), left_(linears), whole_(input) {
    plan.segments.push_back({.layers = {}, .in = input});
  }

  void add(const Linear& linear, std::size_t layer) {
    const std::size_t inputs = whole_.size();
    LinearSlice slice{LinearCut::whole, linear.outputs, inputs, {0, linear.outputs}, true};
    if (between_) slice = cut(slice, LinearCut::rows, inputs, layer);
    else if (left_ > 1) slice = cut(slice, LinearCut::columns, linear.outputs, layer);
    --left_;
    whole_ = linear.output(whole_);
    plan.linears.push_back(slice);
    TensorSegment& segment = plan.segments.back();
    segment.layers.push_back(
        Linear{slice.cut == LinearCut::columns ? slice.own.size() : linear.outputs});
    between_ = slice.cut == LinearCut::columns;
    segment.sums_gradient = segment.sums_gradient || between_;
    if (slice.cut != LinearCut::rows) return;
    segment.sums_output = true;
    plan.segments.push_back({.layers = {}, .in = whole_});
  }
  template <class Value>
  void add(const Value& value, std::size_t layer) {
    if constexpr (std::is_same_v<Value, Relu> || std::is_same_v<Value, Flatten>) {
      plan.segments.back().layers.push_back(value);
      whole_ = value.output(whole_);
    } else {
      refuse(layer, "is no linear layer, and has no features that it could be cut by");
    }
  }

  TensorPlan plan;

 private:
  LinearSlice cut(LinearSlice slice, LinearCut how, std::size_t features, std::size_t layer) const {
    if (features < ranks_)
      refuse(layer, "has " + std::to_string(features) + " features to be cut for " +
                        std::to_string(ranks_) + " ranks");
    slice.cut = how;
    slice.own = share(features, rank_, ranks_);
    slice.has_bias = how == LinearCut::columns || rank_ == 0;
    return slice;
  }

  const std::size_t ranks_, rank_;
  std::size_t left_; ///< linear layers
  SampleShape whole_;
  bool between_ = false; ///< columns and rows
};

} // namespace

TensorPlan tensorPlan(const LayerValues& layers, const SampleShape& input, std::size_t ranks,
                      std::size_t rank) {
  const auto linears = std::count_if(layers.begin(), layers.end(), [](const LayerValue& value) {
    return std::holds_alternative<Linear>(value);
  });
  Cutter cutter(input, ranks, rank, static_cast<std::size_t>(linears));
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    std::visit([&](const auto& value) { cutter.add(value, layer); }, layers[layer]);
  // The loss needs a layer before it; this one changes nothing.
  if (cutter.plan.segments.back().layers.empty())
    cutter.plan.segments.back().layers.emplace_back(Flatten{});
  return std::move(cutter.plan);
}

} // namespace rondo::training
