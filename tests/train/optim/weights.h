// Weights with values and gradients, for tests of optimizers and norms.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "train/aligned.h"
#include "train/layers/weight.h"

namespace rondo::test {

/// Whether two numbers differ by at most the tolerance times the larger of 1 and the second number.
inline bool close(double found, double expected, double tolerance) {
  return std::abs(found - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

/// A matrix that decays, a bias that does not, and sizes with different remainders of a vector
/// loop.
class Weights {
 public:
  explicit Weights(const std::vector<std::size_t>& counts = {35, 7, 64, 1}, unsigned seed = 1)
      : random_(seed) {
    for (std::size_t count : counts) {
      auto& one = *owned_.emplace_back(std::make_unique<Owned>());
      one.values.resize(count);
      one.gradients.resize(count);
      one.weight = {.name = std::to_string(owned_.size() - 1) + ".weight",
                    .shape = {count},
                    .decays = owned_.size() % 2 == 1,
                    .value = one.values.data(),
                    .gradient = one.gradients.data()};
      all_.push_back(&one.weight);
      for (float& value : one.values) value = draw();
    }
  }

  /// Draws the gradients of a step.
  void drawGradients() {
    for (auto& one : owned_)
      for (float& gradient : one->gradients) gradient = draw();
  }

  std::span<training::Weight* const> all() const { return all_; }

 private:
  struct Owned {
    training::Weight weight;
    training::AlignedVector<float> values, gradients;
  };

  float draw() { return std::uniform_real_distribution<float>(-1, 1)(random_); }

  std::minstd_rand random_;
  std::vector<std::unique_ptr<Owned>> owned_;
  std::vector<training::Weight*> all_;
};

} // namespace rondo::test
