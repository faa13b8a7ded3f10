// Every layer's way forward and back, against the reference in double: its loss, and that loss's
// slope in the weights of the layers before, in and behind the layer in question.
#include <algorithm>
#include <cmath>

#include "support/test.h"
#include "train_layers/owner.h"
#include "train_layers/reference.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kClasses = 3;
/// Slopes are taken in so many entries of each weight.
constexpr std::size_t kEntries = 40;
constexpr double kStep = 1e-6;
/// What floats may differ by, of the weight's largest gradient.
constexpr double kTolerance = 2e-4;

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
    // Values that start as constants, as biases do, would hide what is multiplied by them.
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
    for (Weight* weight : network_.weights()) checkGradient(*weight);
  }

 private:
  void checkGradient(const Weight& weight) {
    double largest = 1e-3, worst = 0;
    for (std::size_t i = 0; i < weight.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(weight.gradient[i])));
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

TEST_CASE("linear layers and ReLU: loss and gradients are the reference's") {
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

} // namespace rondo::test
