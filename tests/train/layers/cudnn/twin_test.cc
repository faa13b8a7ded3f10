// Compares programs of GPU layers with the CPU's: steps, gradients, parts of networks, weights that
// are not kept, errors.
#include <limits>

#include "support/caught.h"
#include "train/layers/cudnn/twin.h"
#include "train/models/model.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr SampleShape kShape{2, 3, 4};
constexpr std::size_t kClasses = 5, kCount = 6;

Binding bindingOf(const Model& model, bool training) { return bindingOf(model, training, kCount); }

const LayerValues kEverything = {Flatten{}, Linear{9},     Relu{}, Dropout{0.4},
                                 Linear{7}, Dropout{0.25}, Relu{}, Linear{kClasses}};

const LayerValues kBlock = {Convolution{4, {.kernel = 3, .padding = 1}, false}, BatchNorm{}, Relu{},
                            Convolution{4, {.kernel = 3, .padding = 1}}, BatchNorm{}};
const LayerValues kPictures = {Convolution{4, {.kernel = 3, .padding = 1}},
                               BatchNorm{},
                               Residual{kBlock, {}},
                               Relu{},
                               MaxPool{{.kernel = 2}},
                               Residual{kBlock, {Convolution{4, {.kernel = 1}}}},
                               GlobalAveragePool{},
                               Linear{kClasses}};

/// Whether the weight belongs to the node, or to a node inside a residual.
bool owns(const Node& node, const Weight& weight) {
  const auto inside = [&](const std::vector<Node>& nodes) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const Node& one) { return owns(one, weight); });
  };
  return std::find(node.weights.begin(), node.weights.end(), &weight) != node.weights.end() ||
         inside(node.body) || inside(node.shortcut);
}

} // namespace

TEST_CASE("a step on a GPU equals the CPU's: losses, gradients, their order, evaluation",
          "[cudnn]") {
  const std::vector<LayerValues> tested = {{Flatten{}, Linear{kClasses}},
                                           {Relu{}, Flatten{}, Linear{kClasses}},
                                           {Flatten{}, Linear{6}, Relu{}, Linear{kClasses}},
                                           {Flatten{}, Dropout{0.5}, Linear{kClasses}},
                                           kEverything,
                                           training::model("mlp", kShape, kClasses)};
  for (const LayerValues& layers : tested) checkTwins(layers, kShape, kCount, 3);
}

TEST_CASE("a gradient is in host memory when it is reported as ready", "[cudnn]") {
  const Made made;
  Model cpu(kEverything, kShape), gpu(kEverything, kShape);
  const ComputeThreads alone;
  const MadeUp samples(kShape, kClasses, kCount);
  const auto on_cpu = cpuLayers().make(cpu.nodes, bindingOf(cpu, true));
  on_cpu->forward(samples.batch(), {.seed = 3, .sum_over_ranks = {}});
  on_cpu->backward(nullptr, [](std::size_t) {});
  const auto wanted = cpu.gradients();
  const auto on_gpu = cudnn::makeProgram(gpu.nodes, bindingOf(gpu, true), {0});
  on_gpu->forward(samples.batch(), {.seed = 3, .sum_over_ranks = {}});
  int seen = 0;
  on_gpu->backward(nullptr, [&](std::size_t weight) {
    ++seen;
    CHECK(near(gpu.gradients()[weight], wanted[weight]));
  });
  CHECK(seen == 6);
}

TEST_CASE("parts of a network with their own slots equal the whole network", "[cudnn]") {
  for (const LayerValues& layers : {kEverything, kPictures}) {
    const Made made;
    {
      Model whole(layers, kShape), parts(layers, kShape);
      const std::vector<Node> first(parts.nodes.begin(), parts.nodes.begin() + 4),
          last(parts.nodes.begin() + 4, parts.nodes.end());
      Binding begins = bindingOf(parts, true), ends = begins;
      begins.ends = false;
      ends.begins = false;
      ends.input = last.front().in;
      std::vector<std::unique_ptr<Program>> a, b;
      for (int slot = 0; slot < 2; ++slot) {
        a.push_back(cudnn::makeProgram(first, begins, {0}));
        b.push_back(cudnn::makeProgram(last, ends, {0}));
      }
      const auto all = cudnn::makeProgram(whole.nodes, bindingOf(whole, true), {0});
      const MadeUp samples[] = {MadeUp(kShape, kClasses, kCount),
                                MadeUp(kShape, kClasses, kCount, 50)};
      const Pass pass{.seed = 11, .sum_over_ranks = {}};
      double losses[2];
      // Both forward passes run before the first backward pass.
      for (const std::size_t slot : {0, 1}) {
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
}

TEST_CASE("weights that are not kept are read only between their layer's call and the next",
          "[cudnn]") {
  for (const LayerValues& layers : {kEverything, kPictures}) {
    const Made made;
    Model stays(layers, kShape), goes(layers, kShape);
    std::deque<Floats> kept;
    for (const Weight& weight : goes.weights())
      kept.emplace_back(weight.value, weight.value + weight.size());
    // Only the current layer has its values; those of all other layers are NaN.
    const Before before = [&](std::size_t layer) {
      for (std::size_t i = 0; i < kept.size(); ++i) {
        if (owns(goes.nodes[layer], goes.weights()[i]))
          std::copy(kept[i].begin(), kept[i].end(), goes.weights()[i].value);
        else std::fill_n(goes.weights()[i].value, kept[i].size(), std::nanf(""));
      }
    };
    Binding binding = bindingOf(goes, true);
    binding.before = &before;
    binding.weights_stay = false;
    const auto one = cudnn::makeProgram(stays.nodes, bindingOf(stays, true), {0});
    const auto other = cudnn::makeProgram(goes.nodes, binding, {0});
    const MadeUp samples(kShape, kClasses, kCount);
    const Pass pass{.seed = 2, .sum_over_ranks = {}};
    CHECK(other->forward(samples.batch(), pass) == one->forward(samples.batch(), pass));
    one->backward(nullptr, [](std::size_t) {});
    other->backward(nullptr, [](std::size_t) {});
    CHECK(goes.gradients() == stays.gradients());
  }
}

TEST_CASE("a backward pass reads weights again that changed since the forward pass", "[cudnn]") {
  for (const LayerValues& layers : {kEverything, kPictures}) {
    const Made made;
    Model cpu(layers, kShape), gpu(layers, kShape);
    const ComputeThreads alone;
    const MadeUp samples(kShape, kClasses, kCount);
    const auto on_cpu = cpuLayers().make(cpu.nodes, bindingOf(cpu, true));
    const auto on_gpu = cudnn::makeProgram(gpu.nodes, bindingOf(gpu, true), {0});
    for (const auto& [model, program] : {std::pair(&cpu, &on_cpu), std::pair(&gpu, &on_gpu)}) {
      (*program)->forward(samples.batch(), {.seed = 3, .sum_over_ranks = {}});
      for (Weight& weight : model->weights())
        for (std::size_t i = 0; i < weight.size(); ++i) weight.value[i] *= 0.5F;
      ++model->version;
      (*program)->backward(nullptr, [](std::size_t) {});
    }
    CHECK(near(gpu.gradients(), cpu.gradients()));
  }
}

TEST_CASE("the first layer whose output is not finite is found on a GPU", "[cudnn]") {
  const Made made;
  Model model(kEverything, kShape);
  const auto program = cudnn::makeProgram(model.nodes, bindingOf(model, true), {0});
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

TEST_CASE("a pass allocates nothing, except for the first one that sums over ranks") {
  const Made made;
  auto& cuda = const_cast<FakeCuda&>(made.cuda);
  Model model(kPictures, kShape);
  const auto program = cudnn::makeProgram(model.nodes, bindingOf(model, true), {0});
  const MadeUp samples(kShape, kClasses, kCount);
  const auto allocations = [&](const Pass& pass) {
    cuda.clearCalls();
    program->forward(samples.batch(), pass);
    program->backward(nullptr, [](std::size_t) {});
    return cuda.calls("cudaMalloc") + cuda.calls("cudaHostAlloc") + cuda.calls("cudaFree") +
           cuda.calls("cudaEventCreateWithFlags");
  };
  const Pass over_ranks{.seed = 0, .sum_over_ranks = [](float*, std::size_t) {}};
  CHECK(allocations({}) == 0);
  CHECK(allocations(over_ranks) > 0);
  CHECK(allocations(over_ranks) == 0);
}

/// Makes each function fail in turn. Each is called in every step.
void checkRefusals(const LayerValues& layers, int weights,
                   const std::map<std::string, std::string>& functions,
                   const std::vector<std::string>& builders) {
  const Made made;
  {
    Model model(layers, kShape);
    const MadeUp samples(kShape, kClasses, kCount);
    const auto program = cudnn::makeProgram(model.nodes, bindingOf(model, true), {0});
    auto& libraries = const_cast<FakeLibraries&>(made.libraries);
    int ready = 0;
    const auto step = [&] {
      ready = 0;
      program->forward(samples.batch(), {});
      program->backward(nullptr, [&](std::size_t) { ++ready; });
    };
    for (const auto& [function, layer] : functions) {
      libraries.fail(function);
      const Caught error = caught(step);
      CHECK(error.code == ErrorCode::system);
      CHECK(error.text.starts_with(layer + function + ": cu"));
    }
    for (const std::string& function : builders) {
      libraries.fail(function);
      const Caught error =
          caught([&] { cudnn::makeProgram(model.nodes, bindingOf(model, true), {0}); });
      CHECK(error.code == ErrorCode::system);
      CHECK(error.text.find(function + ": cu") != std::string::npos);
    }
    libraries.fail("");
    CHECK_NOTHROW(step());
    CHECK(ready == weights); // no gradient of a failed pass is reported again
  }
  made.requireNothingLeft();
}

TEST_CASE("a library error names the function and the layer", "[cudnn]") {
  checkRefusals(kEverything, 6,
                {{"cublasSgemm", "layer 1: "},
                 {"cudnnAddTensor", "layer 1: "},
                 {"cudnnActivationForward", "layer 2: "},
                 {"cudnnActivationBackward", "layer 6: "},
                 {"cudnnConvolutionBackwardBias", "layer 7: "}},
                {"cublasCreate", "cudnnCreate"});
  checkRefusals(kPictures, 22,
                {{"cudnnConvolutionForward", "layer 0: "},
                 {"cudnnBatchNormalizationForwardTraining", "layer 1: "},
                 {"cudnnOpTensor", "layer 2: "},
                 {"cudnnPoolingForward", "layer 4: "},
                 {"cudnnPoolingBackward", "layer 6: "},
                 {"cudnnConvolutionBackwardFilter", "layer 5.shortcut.0: "},
                 {"cudnnConvolutionBackwardData", "layer 5.shortcut.0: "},
                 {"cudnnBatchNormalizationBackward", "layer 5.body.4: "}},
                {"cudnnSetFilter4dDescriptor", "cudnnSetConvolution2dDescriptor",
                 "cudnnSetConvolutionMathType", "cudnnGetConvolutionForwardWorkspaceSize",
                 "cudnnGetConvolutionBackwardDataWorkspaceSize",
                 "cudnnGetConvolutionBackwardFilterWorkspaceSize", "cudnnSetPooling2dDescriptor",
                 "cudnnSetOpTensorDescriptor"});
}

TEST_CASE("a precision that the GPU layers do not support is refused", "[cudnn]") {
  const Made made;
  const Model model({Flatten{}, Linear{kClasses}}, kShape);
  Binding binding = bindingOf(model, true);
  binding.precision = Precision::bfloat16;
  const Caught precision = caught([&] { cudnn::makeProgram(model.nodes, binding, {0}); });
  CHECK(precision.code == ErrorCode::unsupported);
  made.requireNothingLeft();
}

} // namespace rondo::test
