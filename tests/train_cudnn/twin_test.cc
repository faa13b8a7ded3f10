// The GPU's layers beside the CPU's: the same nodes, weights and batches, on stand-ins for CUDA and
// its libraries, so that descriptors, layouts, the order on streams and memory are what is tested.
#include <algorithm>
#include <cmath>
#include <limits>

#include "device_cuda/fake/fake.h"
#include "support/caught.h"
#include "support/test.h"
#include "train/layers/cudnn/program.h"
#include "train/layers/onednn/program.h"
#include "train/models/model.h"
#include "train_cudnn/fake/libraries.h"
#include "train_layers/owner.h"

using namespace rondo;
using namespace rondo::test;
using namespace rondo::training;

namespace {

constexpr SampleShape kShape{2, 3, 4};
constexpr std::size_t kClasses = 5, kCount = 6;

struct Made {
  FakeCuda cuda;
  FakeLibraries libraries;

  /// To be called when all programs are gone.
  void requireNothingLeft() const {
    CHECK(cuda.held() == std::map<std::string, int>{});
    CHECK(libraries.held() == std::map<std::string, int>{});
    CHECK(cuda.complaints() == std::vector<std::string>{});
    CHECK(libraries.pedantic());
  }
};

/// Nodes whose weights have memory and values.
class Model {
 public:
  Model(const LayerValues& layers, const SampleShape& in) : nodes(place(layers, in, "", weights_)) {
    Random random(7);
    for (Weight& weight : weights_.learned) {
      Floats& values = memory_.emplace_back(weight.size());
      for (float& value : values) value = static_cast<float>(random.symmetric() / 4);
      weight.value = values.data();
      weight.gradient = memory_.emplace_back(weight.size()).data();
    }
  }
  Model(const Model&) = delete;

  std::deque<Weight>& weights() { return weights_.learned; }
  std::vector<Floats> gradients() const {
    std::vector<Floats> all;
    for (const Weight& weight : weights_.learned)
      all.emplace_back(weight.gradient, weight.gradient + weight.size());
    return all;
  }
  /// A step of plain descent, and what tells the programs of it.
  void descend() {
    for (Weight& weight : weights_.learned)
      for (std::size_t i = 0; i < weight.size(); ++i) weight.value[i] -= 0.01F * weight.gradient[i];
    ++version;
  }

 private:
  Weights weights_;
  std::deque<Floats> memory_;

 public:
  std::vector<Node> nodes;
  std::uint64_t version = 1;
};

Binding bindingOf(const Model& model, bool training) {
  return {.input = model.nodes.front().in,
          .count = kCount,
          .training = training,
          .version = &model.version};
}

bool near(float a, float b) { return std::abs(a - b) <= 1e-5F * std::max(1.0F, std::abs(b)); }
bool near(const Floats& a, const Floats& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return near(x, y); });
}
bool near(const std::vector<Floats>& a, const std::vector<Floats>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Floats& x, const Floats& y) { return near(x, y); });
}

const LayerValues kEverything = {Flatten{}, Linear{9},     Relu{}, Dropout{0.4},
                                 Linear{7}, Dropout{0.25}, Relu{}, Linear{kClasses}};

} // namespace

TEST_CASE("a GPU's step is the CPU's: losses, gradients, their order, evaluation", "[cudnn]") {
  const std::vector<LayerValues> tested = {{Flatten{}, Linear{kClasses}},
                                           {Relu{}, Flatten{}, Linear{kClasses}},
                                           {Flatten{}, Linear{6}, Relu{}, Linear{kClasses}},
                                           {Flatten{}, Dropout{0.5}, Linear{kClasses}},
                                           kEverything,
                                           training::model("mlp", kShape, kClasses)};
  const ComputeThreads alone;
  for (const LayerValues& layers : tested) {
    const Made made;
    {
      Model cpu(layers, kShape), gpu(layers, kShape);
      const auto on_cpu = onednn::makeProgram(cpu.nodes, bindingOf(cpu, true));
      const auto on_gpu = cudnn::makeProgram(gpu.nodes, bindingOf(gpu, true), 1);
      const auto cpu_test = onednn::makeProgram(cpu.nodes, bindingOf(cpu, false));
      const auto gpu_test = cudnn::makeProgram(gpu.nodes, bindingOf(gpu, false), 1);
      for (std::uint32_t step = 0; step < 3; ++step) {
        const MadeUp samples(kShape, kClasses, kCount, step * 100);
        const Pass pass{.seed = step + 5, .sum_over_ranks = {}};
        const double wanted = on_cpu->forward(samples.batch(), pass);
        CHECK(std::abs(on_gpu->forward(samples.batch(), pass) - wanted) < 1e-5 * wanted);
        std::vector<std::size_t> wanted_order, order;
        on_cpu->backward(nullptr, [&](std::size_t weight) { wanted_order.push_back(weight); });
        on_gpu->backward(nullptr, [&](std::size_t weight) { order.push_back(weight); });
        CHECK(order == wanted_order);
        CHECK(near(gpu.gradients(), cpu.gradients()));
        cpu.descend();
        gpu.descend();
        const Score score = gpu_test->evaluate(samples.batch()),
                    wanted_score = cpu_test->evaluate(samples.batch());
        CHECK(std::abs(score.loss - wanted_score.loss) < 1e-5 * wanted_score.loss);
        CHECK(score.correct == wanted_score.correct);
      }
    }
    made.requireNothingLeft();
  }
}

TEST_CASE("a gradient stands in host memory when it is said to be ready", "[cudnn]") {
  const Made made;
  Model cpu(kEverything, kShape), gpu(kEverything, kShape);
  const ComputeThreads alone;
  const MadeUp samples(kShape, kClasses, kCount);
  const auto on_cpu = onednn::makeProgram(cpu.nodes, bindingOf(cpu, true));
  on_cpu->forward(samples.batch(), {.seed = 3, .sum_over_ranks = {}});
  on_cpu->backward(nullptr, [](std::size_t) {});
  const auto wanted = cpu.gradients();
  const auto on_gpu = cudnn::makeProgram(gpu.nodes, bindingOf(gpu, true), 0);
  on_gpu->forward(samples.batch(), {.seed = 3, .sum_over_ranks = {}});
  int seen = 0;
  on_gpu->backward(nullptr, [&](std::size_t weight) {
    ++seen;
    CHECK(near(gpu.gradients()[weight], wanted[weight]));
  });
  CHECK(seen == 6);
}

TEST_CASE("parts of a network in slots of their own make what the whole makes", "[cudnn]") {
  const Made made;
  {
    Model whole(kEverything, kShape), parts(kEverything, kShape);
    const std::vector<Node> first(parts.nodes.begin(), parts.nodes.begin() + 4),
        last(parts.nodes.begin() + 4, parts.nodes.end());
    Binding begins = bindingOf(parts, true), ends = begins;
    begins.ends = false;
    ends.begins = false;
    ends.input = last.front().in;
    std::vector<std::unique_ptr<Program>> a, b;
    for (int slot = 0; slot < 2; ++slot) {
      a.push_back(cudnn::makeProgram(first, begins, 0));
      b.push_back(cudnn::makeProgram(last, ends, 0));
    }
    const auto all = cudnn::makeProgram(whole.nodes, bindingOf(whole, true), 0);
    const MadeUp samples[] = {MadeUp(kShape, kClasses, kCount),
                              MadeUp(kShape, kClasses, kCount, 50)};
    const Pass pass{.seed = 11, .sum_over_ranks = {}};
    double losses[2];
    for (const std::size_t slot : {0, 1}) { // both are under way before one goes back
      CHECK(a[slot]->forward(samples[slot].batch(), pass) == 0);
      Batch between = samples[slot].batch();
      between.inputs = a[slot]->output();
      losses[slot] = b[slot]->forward(between, pass);
    }
    for (const std::size_t slot : {0, 1}) {
      CHECK(losses[slot] == all->forward(samples[slot].batch(), pass));
      all->backward(nullptr, [](std::size_t) {});
      b[slot]->backward(nullptr, [](std::size_t) {});
      a[slot]->backward(b[slot]->inputGradient(), [](std::size_t) {});
      CHECK(parts.gradients() == whole.gradients());
    }
  }
  made.requireNothingLeft();
}

TEST_CASE("weights that do not stay are read between their layer's call and the next", "[cudnn]") {
  const Made made;
  Model stays(kEverything, kShape), goes(kEverything, kShape);
  std::deque<Floats> kept;
  for (const Weight& weight : goes.weights())
    kept.emplace_back(weight.value, weight.value + weight.size());
  // Only the layer that is asked for has its values; all others' are not numbers.
  const Before before = [&](std::size_t layer) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto& own = goes.nodes[layer].weights;
      const bool here = std::find(own.begin(), own.end(), &goes.weights()[i]) != own.end();
      if (here) std::copy(kept[i].begin(), kept[i].end(), goes.weights()[i].value);
      else std::fill_n(goes.weights()[i].value, kept[i].size(), std::nanf(""));
    }
  };
  Binding binding = bindingOf(goes, true);
  binding.before = &before;
  binding.weights_stay = false;
  const auto one = cudnn::makeProgram(stays.nodes, bindingOf(stays, true), 0);
  const auto other = cudnn::makeProgram(goes.nodes, binding, 0);
  const MadeUp samples(kShape, kClasses, kCount);
  const Pass pass{.seed = 2, .sum_over_ranks = {}};
  CHECK(other->forward(samples.batch(), pass) == one->forward(samples.batch(), pass));
  one->backward(nullptr, [](std::size_t) {});
  other->backward(nullptr, [](std::size_t) {});
  CHECK(goes.gradients() == stays.gradients());
}

TEST_CASE("the first layer whose output is not finite is found on a GPU", "[cudnn]") {
  const Made made;
  Model model(kEverything, kShape);
  const auto program = cudnn::makeProgram(model.nodes, bindingOf(model, true), 0);
  const MadeUp samples(kShape, kClasses, kCount);
  program->forward(samples.batch(), {});
  CHECK(program->firstNotFinite() == model.nodes.size());
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    *model.nodes[4].weights[1]->value = bad;
    ++model.version;
    program->forward(samples.batch(), {});
    CHECK(program->firstNotFinite() == 4);
  }
}

TEST_CASE("what a library refuses is an error that names function and layer", "[cudnn]") {
  const Made made;
  {
    Model model(kEverything, kShape);
    const MadeUp samples(kShape, kClasses, kCount);
    const auto program = cudnn::makeProgram(model.nodes, bindingOf(model, true), 0);
    auto& libraries = const_cast<FakeLibraries&>(made.libraries);
    int ready = 0;
    const auto step = [&] {
      ready = 0;
      program->forward(samples.batch(), {});
      program->backward(nullptr, [&](std::size_t) { ++ready; });
    };
    for (const auto& [function, layer] :
         std::map<std::string, std::string>{{"cublasSgemm", "layer 1: "},
                                            {"cudnnAddTensor", "layer 1: "},
                                            {"cudnnActivationForward", "layer 2: "},
                                            {"cudnnActivationBackward", "layer 6: "},
                                            {"cudnnConvolutionBackwardBias", "layer 7: "}}) {
      libraries.fail(function);
      const Caught error = caught(step);
      CHECK(error.code == ErrorCode::system);
      CHECK(error.text.starts_with(layer + function + ": cu"));
    }
    for (const std::string function : {"cublasCreate", "cudnnCreate"}) {
      libraries.fail(function);
      const Caught error =
          caught([&] { cudnn::makeProgram(model.nodes, bindingOf(model, true), 0); });
      CHECK(error.text.starts_with(function + ": cu"));
    }
    libraries.fail("");
    CHECK_NOTHROW(step());
    CHECK(ready == 6); // none again that departed in a pass which failed
  }
  made.requireNothingLeft();
}

TEST_CASE("what the GPU's layers have not is refused by name", "[cudnn]") {
  const Made made;
  const Model model({Relu{}, MaxPool{{.kernel = 2}}, Flatten{}, Linear{kClasses}}, kShape);
  const Caught layer = caught([&] { cudnn::makeProgram(model.nodes, bindingOf(model, true), 0); });
  CHECK(layer.code == ErrorCode::unsupported);
  CHECK(layer.text.starts_with("layer 1: device cuda"));
  CHECK(caught([&] { cudnn::requireLayers(model.nodes); }).text == layer.text);
  Binding binding = bindingOf(model, true);
  binding.precision = Precision::bfloat16;
  const Caught precision = caught([&] { cudnn::makeProgram(model.nodes, binding, 0); });
  CHECK(precision.code == ErrorCode::unsupported);
  made.requireNothingLeft();
}
