// Compares GPU layers with CPU layers: the same nodes, weights and batches, on fakes of CUDA and
// its libraries.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/fake/fake.h"
#include "support/test.h"
#include "train/layers/compute.h"
#include "train/layers/cudnn/fake/libraries.h"
#include "train/layers/cudnn/program.h"
#include "train/layers/owner.h"

namespace rondo::test {

struct Made {
  FakeCuda cuda;
  FakeLibraries libraries;

  /// Call this after all programs are destroyed.
  void requireNothingLeft() const {
    CHECK(cuda.held() == std::map<std::string, int>{});
    CHECK(libraries.held() == std::map<std::string, int>{});
    CHECK(cuda.complaints() == std::vector<std::string>{});
    CHECK(libraries.pedantic());
  }
};

/// Nodes with memory and values for weights and running statistics.
class Model {
 public:
  Model(const training::LayerValues& layers, const training::SampleShape& in)
      : nodes(training::place(layers, in, "", weights_)) {
    training::Random random(7);
    for (auto* all : {&weights_.learned, &weights_.state})
      for (training::Weight& weight : *all) {
        const double spread = weight.spread > 0 ? weight.spread : 0.25;
        Floats& values = memory_.emplace_back(weight.size());
        for (float& value : values)
          value = static_cast<float>(weight.start + spread * random.symmetric());
        weight.value = values.data();
        weight.gradient = memory_.emplace_back(weight.size()).data();
      }
  }
  Model(const Model&) = delete;

  std::deque<training::Weight>& weights() { return weights_.learned; }
  std::deque<training::Weight>& state() { return weights_.state; }
  std::vector<Floats> values() const { return all(weights_.learned, &training::Weight::value); }
  std::vector<Floats> gradients() const {
    return all(weights_.learned, &training::Weight::gradient);
  }
  /// statistics(): of the batch. running(): the running statistics.
  std::vector<Floats> statistics() const {
    return all(weights_.state, &training::Weight::gradient);
  }
  std::vector<Floats> running() const { return all(weights_.state, &training::Weight::value); }

  /// Takes a step of gradient descent, updates the running statistics, and changes the version for
  /// the programs.
  void descend() {
    for (training::Weight& weight : weights_.learned)
      for (std::size_t i = 0; i < weight.size(); ++i) weight.value[i] -= 0.01F * weight.gradient[i];
    for (training::Weight& weight : weights_.state)
      for (std::size_t i = 0; weight.gradient && i < weight.size(); ++i)
        weight.value[i] += training::BatchNorm::kNewest * (weight.gradient[i] - weight.value[i]);
    ++version;
  }

 private:
  static std::vector<Floats> all(const std::deque<training::Weight>& weights,
                                 float* training::Weight::*part) {
    std::vector<Floats> all;
    for (const training::Weight& weight : weights)
      all.emplace_back(weight.*part, weight.*part + weight.size());
    return all;
  }

  training::Weights weights_;
  std::deque<Floats> memory_;

 public:
  std::vector<training::Node> nodes;
  std::uint64_t version = 1;
};

inline training::Binding bindingOf(const Model& model, bool training, std::size_t count) {
  return {.input = model.nodes.front().in,
          .count = count,
          .training = training,
          .version = &model.version};
}

inline bool near(float a, float b) {
  return std::abs(a - b) <= 1e-5F * std::max(1.0F, std::abs(b));
}
inline bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(1.0, b); }
inline bool near(const Floats& a, const Floats& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return near(x, y); });
}
inline bool near(const std::vector<Floats>& a, const std::vector<Floats>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Floats& x, const Floats& y) { return near(x, y); });
}

/// Trains both for some steps. Requires equal losses, gradients, order of gradients, statistics and
/// weights, and equal evaluations after each step.
inline void checkTwins(const training::LayerValues& layers, const training::SampleShape& shape,
                       std::size_t count, std::uint32_t steps = 2) {
  const Made made;
  {
    Model cpu(layers, shape), gpu(layers, shape);
    const training::ComputeThreads alone;
    const std::size_t classes = cpu.nodes.back().out.size();
    const auto on_cpu = training::cpuLayers().make(cpu.nodes, bindingOf(cpu, true, count));
    const auto on_gpu = training::cudnn::makeProgram(gpu.nodes, bindingOf(gpu, true, count), {1});
    const auto cpu_test = training::cpuLayers().make(cpu.nodes, bindingOf(cpu, false, count));
    const auto gpu_test =
        training::cudnn::makeProgram(gpu.nodes, bindingOf(gpu, false, count), {1});
    for (std::uint32_t step = 0; step < steps; ++step) {
      const MadeUp samples(shape, classes, count, step * 100);
      const training::Pass pass{.seed = step + 5, .sum_over_ranks = {}};
      const double wanted = on_cpu->forward(samples.batch(), pass);
      CHECK(near(on_gpu->forward(samples.batch(), pass), wanted));
      CHECK(near(gpu.statistics(), cpu.statistics()));
      std::vector<std::size_t> wanted_order, order;
      on_cpu->backward(nullptr, [&](std::size_t weight) { wanted_order.push_back(weight); });
      on_gpu->backward(nullptr, [&](std::size_t weight) { order.push_back(weight); });
      CHECK(order == wanted_order);
      CHECK(near(gpu.gradients(), cpu.gradients()));
      cpu.descend();
      gpu.descend();
      CHECK(near(gpu.values(), cpu.values()));
      const training::Score score = gpu_test->evaluate(samples.batch()),
                            wanted_score = cpu_test->evaluate(samples.batch());
      CHECK(near(score.loss, wanted_score.loss));
      CHECK(score.correct == wanted_score.correct);
    }
  }
  made.requireNothingLeft();
}

} // namespace rondo::test
