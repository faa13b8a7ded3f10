// Compares forward and backward passes of every layer with the reference in double: the loss, and
// its slope in the weights of the tested layer and of the layers before and after it.
#include <algorithm>
#include <cmath>

#include "support/grid.h"
#include "support/test.h"
#include "train/layers/owner.h"
#include "train/layers/reference.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kClasses = 3;
/// Slopes are computed for this many entries of each weight.
constexpr std::size_t kEntries = 40;
constexpr double kStep = 1e-6;
/// Tolerance of float gradients, relative to the weight's largest gradient; or kSmall, relative to
/// the largest gradient of all weights, if the true gradient is zero, as for a bias before batch
/// norm.
constexpr double kTolerance = 2e-4, kSmall = 1e-2;

struct Case {
  const char* name;
  LayerValues layers;
  SampleShape in;
};

class Comparison {
 public:
  Comparison(const Case& tested, std::size_t count)
      : case_(tested),
        count_(count),
        network_(tested.layers, tested.in),
        owner_(network_, count + 7),
        reference_(tested.layers, tested.in),
        made_up_(tested.in, kClasses, count),
        in_{count, tested.in, Numbers(made_up_.inputs.begin(), made_up_.inputs.end())} {
    // Constant initial values, as biases have, would hide errors in what is multiplied by them.
    Random random(5);
    for (Weight* weight : network_.weights())
      for (std::size_t i = 0; i < weight->size(); ++i) {
        if (weight->spread == 0) weight->value[i] += static_cast<float>(0.3 * random.symmetric());
        reference_.weights[weight->number].at(i) = static_cast<double>(weight->value[i]);
      }
    network_.weightsChanged();
  }

  void check() {
    const double loss = network_.forward(made_up_.batch(), {});
    const double wanted = reference_.loss(in_, made_up_.labels);
    INFO(case_.name << ", " << count_ << " samples");
    CHECK(std::abs(loss - wanted) < 1e-5 * std::max(1.0, std::abs(wanted)));
    network_.backward([](std::size_t) {});
    double largest = 0;
    for (const Weight* weight : network_.weights()) largest = std::max(largest, largestOf(*weight));
    for (const Weight* weight : network_.weights()) checkGradient(*weight, kSmall * largest);
  }

 private:
  static double largestOf(const Weight& weight) {
    const auto [low, high] = std::minmax_element(weight.gradient, weight.gradient + weight.size());
    return std::max(static_cast<double>(*high), -static_cast<double>(*low));
  }

  void checkGradient(const Weight& weight, double least) {
    const double largest = std::max(largestOf(weight), least);
    double worst = 0;
    Random random(3);
    for (std::size_t k = 0; k < std::min(kEntries, weight.size()); ++k) {
      const std::size_t i =
          weight.size() <= kEntries ? k : random.below(static_cast<std::uint32_t>(weight.size()));
      const double slope = slopeOf(reference_.weights[weight.number][i]);
      worst = std::max(worst, std::abs(slope - static_cast<double>(weight.gradient[i])));
    }
    INFO(weight.name << ", largest gradient " << largest << ", worst difference " << worst);
    CHECK(worst <= kTolerance * largest);
  }

  double slopeOf(double& value) {
    const double kept = value;
    value = kept + kStep;
    const double above = reference_.loss(in_, made_up_.labels);
    value = kept - kStep;
    const double below = reference_.loss(in_, made_up_.labels);
    value = kept;
    return (above - below) / (2 * kStep);
  }

  const Case& case_;
  std::size_t count_;
  Network network_;
  Owner owner_;
  Reference reference_;
  MadeUp made_up_;
  Values in_;
};

void checkAll(const std::vector<Case>& cases) {
  for (const Case& tested : cases)
    for (std::size_t count : {1, 2, 7, 16}) Comparison(tested, count).check();
}

} // namespace

TEST_CASE("linear layers and ReLU: loss and gradients equal the reference") {
  checkAll({
      {"linear alone", {Linear{kClasses}}, {5, 1, 1}},
      {"one input", {Linear{1}, Linear{kClasses}}, {1, 1, 1}},
      {"ReLU between", {Linear{33}, Relu{}, Linear{17}, Relu{}, Linear{kClasses}}, {9, 1, 1}},
      {"ReLU first", {Relu{}, Linear{16}, Relu{}, Relu{}, Linear{kClasses}}, {16, 1, 1}},
      {"ReLU last", {Linear{kClasses}, Relu{}}, {20, 1, 1}},
      {"flattened", {Flatten{}, Linear{13}, Relu{}, Linear{kClasses}}, {3, 5, 7}},
      {"as wide as caches", {Linear{64}, Relu{}, Linear{kClasses}}, {784, 1, 1}},
  });
}

// A tested layer follows a layer with weights, so that the gradient of its input matters, and
// precedes a linear layer, whose gradient depends on every output of the tested layer.

TEST_CASE("convolutions: loss and gradients equal the reference") {
  const auto alone = [](const char* name, std::size_t channels, Window window, SampleShape in) {
    return Case{name, {Convolution{channels, window}, Flatten{}, Linear{kClasses}}, in};
  };
  const auto between = [](const char* name, std::size_t channels, Window window, SampleShape in) {
    return Case{name,
                {Convolution{in.channels, {.kernel = 1}, false}, Convolution{channels, window},
                 Relu{}, Flatten{}, Linear{kClasses}},
                in};
  };
  checkAll({
      alone("1 x 1", 2, {.kernel = 1}, {1, 1, 1}),
      alone("first, grey", 8, {.kernel = 3, .padding = 1}, {1, 6, 7}),
      alone("first, grey, stride", 8, {.kernel = 5, .stride = 2, .padding = 2}, {1, 9, 6}),
      alone("first, colour", 16, {.kernel = 5, .stride = 2, .padding = 2}, {3, 9, 8}),
      between("16 to 32", 32, {.kernel = 3, .padding = 1}, {16, 4, 5}),
      between("stride", 16, {.kernel = 3, .stride = 2, .padding = 1}, {16, 5, 5}),
      between("stride, even", 16, {.kernel = 3, .stride = 2, .padding = 1}, {16, 4, 6}),
      between("projection", 32, {.kernel = 1, .stride = 2}, {16, 5, 4}),
      between("odd channels", 5, {.kernel = 3, .padding = 1}, {7, 4, 3}),
      between("no padding", 20, {.kernel = 2}, {3, 3, 3}),
      between("the whole picture", 4, {.kernel = 3}, {17, 3, 3}),
  });
}

TEST_CASE("pools: loss and gradients equal the reference") {
  for (const SampleShape in : {SampleShape{16, 6, 6}, {5, 7, 5}, {1, 4, 9}})
    for (const Window window : {Window{.kernel = 2, .stride = 2},
                                {.kernel = 3, .stride = 2, .padding = 1},
                                {.kernel = 3}}) {
      if (!kWholeGrid && in.channels != 5 && window.padding == 0) continue;
      const auto with = [&](const char* name, const LayerValue& pool) {
        return Case{name,
                    {Convolution{in.channels, {.kernel = 3, .padding = 1}}, pool, Flatten{},
                     Linear{kClasses}},
                    in};
      };
      checkAll({with("max", MaxPool{window}),
                with("average", AveragePool{window}),
                with("global average", GlobalAveragePool{}),
                {"max of a ReLU",
                 {Convolution{in.channels, {.kernel = 3, .padding = 1}}, Relu{}, MaxPool{window},
                  Flatten{}, Linear{kClasses}},
                 in}});
    }
}

TEST_CASE("batch norm: loss and gradients equal the reference") {
  for (const SampleShape in : {SampleShape{16, 4, 3}, {5, 3, 3}, {33, 2, 2}}) {
    const Convolution before{in.channels, {.kernel = 1}};
    const Linear last{kClasses};
    checkAll({
        {"batch norm", {before, BatchNorm{}, Flatten{}, last}, in},
        {"batch norm first", {BatchNorm{}, Flatten{}, last}, in},
        {"with ReLU", {before, BatchNorm{}, Relu{}, Flatten{}, last}, in},
        {"twice", {before, BatchNorm{}, Relu{}, before, BatchNorm{}, Flatten{}, last}, in},
    });
  }
}

TEST_CASE("residuals: loss and gradients equal the reference") {
  const Convolution keep{6, {.kernel = 3, .padding = 1}}, grow{32, {.kernel = 3, .padding = 1}},
      project{32, {.kernel = 1}, false};
  const Residual plain{{keep, Relu{}, keep}, {}}, projected{{grow, BatchNorm{}}, {project}};
  const SampleShape in = {6, 4, 5};
  const Linear last{kClasses};
  checkAll({
      {"plain", {keep, plain, Flatten{}, last}, in},
      {"first", {plain, Relu{}, Flatten{}, last}, in},
      {"with ReLU", {keep, plain, Relu{}, Flatten{}, last}, in},
      {"projected", {keep, projected, Relu{}, GlobalAveragePool{}, last}, in},
      {"empty body", {keep, Residual{{}, {keep}}, Relu{}, Flatten{}, last}, in},
      {"two empty chains", {keep, Residual{{}, {}}, Flatten{}, last}, in},
      {"one in another", {keep, Residual{{plain, Relu{}}, {}}, Relu{}, Flatten{}, last}, in},
      {"features", {Linear{4}, Residual{{Linear{4}, Relu{}}, {}}, Relu{}, last}, {3, 1, 1}},
  });
}

} // namespace rondo::test
