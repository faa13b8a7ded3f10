// A network with memory for its weights, and generated batches.
#pragma once

#include <deque>
#include <vector>

#include "train/aligned.h"
#include "train/loop/compute_threads.h"
#include "train/models/network.h"
#include "train/random.h"

namespace rondo::test {

using Floats = training::AlignedVector<float>;

/// Replaces the training loop: owns values and gradients of weights and state, and makes this
/// thread compute without others.
class Owner {
 public:
  explicit Owner(training::Network& network, std::uint64_t seed = 1) {
    for (const auto& weights : {network.weights(), network.state()})
      for (training::Weight* weight : weights) {
        weight->value = make(weight->size());
        weight->gradient = make(weight->size());
      }
    network.initialise(seed);
  }
  Owner(const Owner&) = delete;

 private:
  float* make(std::size_t count) { return memory_.emplace_back(count).data(); }

  training::ComputeThreads alone_;
  std::deque<Floats> memory_;
};

/// Samples that depend only on their own numbers.
class MadeUp {
 public:
  MadeUp(const training::SampleShape& shape, std::size_t classes, std::size_t count,
         std::uint32_t first = 0)
      : inputs(count * shape.size()) {
    for (std::size_t n = 0; n < count; ++n) {
      samples.push_back(first + static_cast<std::uint32_t>(n));
      training::Random random(samples.back());
      for (std::size_t i = 0; i < shape.size(); ++i)
        inputs[n * shape.size() + i] = static_cast<float>(random.symmetric());
      labels.push_back(
          static_cast<std::uint8_t>(random.below(static_cast<std::uint32_t>(classes))));
    }
  }

  training::Batch batch() const {
    return {labels.size(), inputs.data(), labels.data(), samples.data()};
  }

  Floats inputs;
  std::vector<std::uint8_t> labels;
  std::vector<std::uint32_t> samples;
};

} // namespace rondo::test
