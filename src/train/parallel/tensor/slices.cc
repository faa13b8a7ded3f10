#include "train/parallel/tensor/slices.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

#include "rondo/error.h"

namespace rondo::training {

void WeightSlice::take(const float* whole, float* own_values) const {
  for (std::size_t o = 0; o < outer; ++o)
    own_values = std::copy(whole + (o * features + own.begin) * inner,
                           whole + (o * features + own.end) * inner, own_values);
}

void WeightSlice::put(const float* own_values, float* whole) const {
  const std::size_t count = own.size() * inner;
  for (std::size_t o = 0; o < outer; ++o)
    std::copy_n(own_values + o * count, count, whole + (o * features + own.begin) * inner);
}

namespace {

[[noreturn]] void refuse(std::size_t layer, const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              "train: axis tensor: layer " + std::to_string(layer) + " " + what);
}

template <class Value>
constexpr bool kCut = std::is_same_v<Value, Linear> || std::is_same_v<Value, Convolution>;
template <class Value>
constexpr bool kPasses = requires {
  requires Value::kByFeature;
};

bool isCut(const LayerValue& layer) {
  return std::visit([](const auto& value) { return kCut<std::decay_t<decltype(value)>>; }, layer);
}

/// The shape of a linear layer or a convolution.
struct Dense {
  std::size_t outputs, inputs;
  std::size_t window; ///< weights between one output and one input
  bool bias;
};

Dense dense(const Linear& linear, const SampleShape& in) {
  return {linear.outputs, in.size(), 1, true};
}
Dense dense(const Convolution& convolution, const SampleShape& in) {
  const std::size_t kernel = convolution.window.kernel;
  return {convolution.channels, in.channels, kernel * kernel, convolution.bias};
}

Linear withOutputs(const Linear&, std::size_t outputs) { return {outputs}; }
Convolution withOutputs(Convolution convolution, std::size_t outputs) {
  convolution.channels = outputs;
  return convolution;
}

/// Builds the plan layer by layer.
class Cutter {
 public:
  Cutter(const SampleShape& input, std::size_t ranks, std::size_t rank, std::ptrdiff_t to_cut)
      : ranks_(ranks), rank_(rank), left_(to_cut), whole_(input) {}

  template <class Value>
  void add(const Value& value) {
    const std::size_t layer = plan.layers.size();
    plan.sums.emplace_back();
    if constexpr (kCut<Value>) {
      const Dense shape = dense(value, whole_);
      if (between_) addRows(shape);
      else if (left_ > 1) addColumns(shape, layer);
      else addWhole(shape);
      plan.layers.push_back(withOutputs(value, between_ ? between_->size() : shape.outputs));
      whole_ = value.output(whole_);
      --left_;
      learns_ = true;
    } else if constexpr (kPasses<Value>) {
      plan.layers.push_back(value);
      const std::size_t channels = whole_.channels;
      whole_ = value.output(whole_);
      if (between_) spread(whole_.channels / channels);
    } else {
      refuse(layer,
             "cannot be cut by features; linear layers and convolutions can, with ReLU, pools and "
             "flatten between them");
    }
  }

  TensorPlan plan;

 private:
  void addColumns(const Dense& shape, std::size_t layer) {
    if (shape.outputs < ranks_)
      refuse(layer, "has " + std::to_string(shape.outputs) + " features, too few for " +
                        std::to_string(ranks_) + " ranks");
    between_ = share(shape.outputs, rank_, ranks_);
    plan.weights.push_back(
        {1, shape.outputs, shape.inputs * shape.window, *between_, Cut::columns});
    if (shape.bias) plan.weights.push_back({1, shape.outputs, 1, *between_, Cut::columns});
    plan.sums.back().gradient = learns_; // otherwise no layer before it needs the gradient
  }
  /// Only one rank has the bias, because the outputs of all ranks are summed.
  void addRows(const Dense& shape) {
    spread(shape.inputs / whole_.channels);
    plan.weights.push_back({shape.outputs, shape.inputs, shape.window, *between_, Cut::rows});
    if (shape.bias)
      plan.weights.push_back(
          {1, shape.outputs, 1, {0, rank_ == 0 ? shape.outputs : 0}, Cut::first_rank});
    plan.sums.back().output = true;
    between_.reset();
  }
  void addWhole(const Dense& shape) {
    const auto all = [&](std::size_t count) {
      plan.weights.push_back({1, count, 1, {0, count}, Cut::everywhere});
    };
    all(shape.outputs * shape.inputs * shape.window);
    if (shape.bias) all(shape.outputs);
  }
  /// Each feature becomes `times` consecutive features.
  void spread(std::size_t times) { between_ = {between_->begin * times, between_->end * times}; }

  const std::size_t ranks_, rank_;
  std::ptrdiff_t left_; ///< remaining layers that can be cut
  SampleShape whole_;
  /// After a layer cut by columns, until the layer cut by rows: this rank's features.
  std::optional<Range> between_;
  bool learns_ = false; ///< an earlier layer has weights
};

} // namespace

TensorPlan tensorPlan(const LayerValues& layers, const SampleShape& input, std::size_t ranks,
                      std::size_t rank) {
  Cutter cutter(input, ranks, rank, std::count_if(layers.begin(), layers.end(), isCut));
  for (const LayerValue& layer : layers)
    std::visit([&](const auto& value) { cutter.add(value); }, layer);
  if (cutter.plan.sums.back().output) {
    cutter.plan.layers.emplace_back(Flatten{});
    cutter.plan.sums.emplace_back();
  }
  return std::move(cutter.plan);
}

std::vector<TensorPlan> tensorPlans(const LayerValues& layers, const SampleShape& input,
                                    std::size_t ranks) {
  std::vector<TensorPlan> plans;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    plans.push_back(tensorPlan(layers, input, ranks, rank));
  return plans;
}

std::vector<LayerRange> segments(const TensorPlan& plan, LayerRange layers) {
  std::vector<LayerRange> all;
  std::size_t begin = layers.begin;
  for (std::size_t layer = begin; layer < layers.end; ++layer) {
    const bool last = layer + 1 == layers.end;
    if (!last && !plan.sums[layer].output && !plan.sums[layer + 1].gradient) continue;
    all.push_back({begin, layer + 1});
    begin = layer + 1;
  }
  return all;
}

SummedFloats summedFloats(const TensorPlan& plan, const SampleShape& input, LayerRange layers) {
  Weights weights;
  const std::vector<Node> nodes = place(plan.layers, input, "", weights);
  SummedFloats floats;
  for (std::size_t layer = layers.begin; layer < std::min(layers.end, nodes.size()); ++layer) {
    if (plan.sums[layer].output) floats.forward += nodes[layer].out.size();
    if (plan.sums[layer].gradient) floats.backward += nodes[layer].in.size();
  }
  return floats;
}

std::size_t learnedFloats(const std::vector<TensorPlan>& plans) {
  std::size_t floats = 0;
  for (const TensorPlan& plan : plans)
    for (const WeightSlice& slice : plan.weights) floats += slice.size();
  return floats;
}

} // namespace rondo::training
