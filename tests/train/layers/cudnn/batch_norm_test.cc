// Compares batch norm on a GPU with the CPU: statistics, running statistics, evaluation, and
// statistics over all ranks.
#include <thread>

#include "support/caught.h"
#include "train/layers/cudnn/twin.h"
#include "train/layers/fold.h"
#include "train/layers/rank_sum.h"

namespace rondo::test {
namespace {

using namespace training;

constexpr std::size_t kClasses = 3;
constexpr SampleShape kShape{5, 3, 2};

LayerValues normFirst() { return {BatchNorm{}, Flatten{}, Linear{kClasses}}; }
LayerValues normTwice() {
  const Convolution before{7, {.kernel = 3, .padding = 1}};
  return {before, BatchNorm{}, Relu{}, before, BatchNorm{}, Flatten{}, Linear{kClasses}};
}

struct Outcome {
  double loss = 0;
  std::vector<Floats> gradients, statistics;
  std::vector<std::size_t> order;
};

/// Runs a forward and a backward pass.
template <class Make>
Outcome outcome(const Make& make, Model& model, const MadeUp& samples, const Pass& pass) {
  const ComputeThreads alone;
  const auto program = make(model.nodes, bindingOf(model, true, samples.labels.size()));
  Outcome result;
  result.loss = program->forward(samples.batch(), pass);
  program->backward(nullptr, [&](std::size_t weight) { result.order.push_back(weight); });
  result.gradients = model.gradients();
  result.statistics = model.statistics();
  return result;
}

/// Runs the step of two ranks with 5 and 2 samples.
template <class Make>
std::vector<Outcome> ranks(const Make& make, const LayerValues& layers) {
  RankSum sum(2);
  std::vector<Outcome> all(2);
  const auto run = [&](int rank) {
    Model model(layers, kShape);
    const MadeUp samples(kShape, kClasses, rank == 0 ? 5 : 2, rank == 0 ? 0 : 5);
    const Pass pass{.seed = 0, .sum_over_ranks = [&](float* values, std::size_t count) {
                      sum(rank, values, count);
                    }};
    all[static_cast<std::size_t>(rank)] = outcome(make, model, samples, pass);
  };
  std::thread second(run, 1);
  run(0);
  second.join();
  return all;
}

const auto kOnCpu = [](const std::vector<Node>& nodes, const Binding& binding) {
  return cpuLayers().make(nodes, binding);
};
const auto kOnGpu = [](const std::vector<Node>& nodes, const Binding& binding) {
  return cudnn::makeProgram(nodes, binding, {0});
};

} // namespace

TEST_CASE("batch norm on a GPU equals the CPU's, including running statistics and evaluation") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{4}}) {
    checkTwins(normFirst(), kShape, count, 3);
    checkTwins(normTwice(), kShape, count, 3);
  }
}

TEST_CASE("the statistics of a single value are the value and no variance") {
  checkTwins({Convolution{3, {.kernel = 1}}, BatchNorm{}, Flatten{}, Linear{kClasses}}, {2, 1, 1},
             1);
}

TEST_CASE("a network with folded batch norms evaluates on a GPU as on the CPU") {
  const Made made;
  {
    const Model model(normTwice(), kShape);
    Folded folded(model.nodes);
    folded.refresh();
    const ComputeThreads alone;
    const MadeUp samples(kShape, kClasses, 4);
    const Score wanted =
        kOnCpu(folded.nodes(), bindingOf(model, false, 4))->evaluate(samples.batch());
    const Score score =
        kOnGpu(folded.nodes(), bindingOf(model, false, 4))->evaluate(samples.batch());
    CHECK(near(score.loss, wanted.loss));
    CHECK(score.correct == wanted.correct);
  }
  made.requireNothingLeft();
}

TEST_CASE("without memory for a batch's statistics a pass updates the running ones exactly once") {
  Made made;
  {
    Model cpu(normFirst(), kShape), gpu(normFirst(), kShape);
    for (Model* model : {&cpu, &gpu})
      for (Weight& weight : model->state()) weight.gradient = nullptr;
    const ComputeThreads alone;
    const MadeUp samples(kShape, kClasses, 4);
    const auto on_cpu = kOnCpu(cpu.nodes, bindingOf(cpu, true, 4));
    const auto on_gpu = kOnGpu(gpu.nodes, bindingOf(gpu, true, 4));
    on_cpu->forward(samples.batch(), {});
    const auto before = gpu.running();
    made.libraries.fail("cublasSgemm"); // fails after the norm
    CHECK_THROWS_AS(on_gpu->forward(samples.batch(), {}), Error);
    CHECK(gpu.running() == before);
    made.libraries.fail("");
    on_gpu->forward(samples.batch(), {});
    CHECK(near(gpu.running(), cpu.running()));
    CHECK(!near(gpu.running(), before));
  }
  made.requireNothingLeft();
}

TEST_CASE("batch norm over ranks on a GPU equals the CPU's, and that of the whole batch") {
  for (const LayerValues& layers : {normFirst(), normTwice()}) {
    const Made made;
    const auto wanted = ranks(kOnCpu, layers), found = ranks(kOnGpu, layers);
    for (const std::size_t rank : {0, 1}) {
      CHECK(near(found[rank].loss, wanted[rank].loss));
      CHECK(near(found[rank].gradients, wanted[rank].gradients));
      CHECK(near(found[rank].statistics, wanted[rank].statistics));
      CHECK(found[rank].order == wanted[rank].order);
    }
    CHECK(found[0].statistics == found[1].statistics);
    Model whole(layers, kShape);
    const Outcome all = outcome(kOnGpu, whole, MadeUp(kShape, kClasses, 7), {});
    CHECK(near(found[0].statistics, all.statistics));
    CHECK(near(found[0].loss + found[1].loss, all.loss));
    made.requireNothingLeft();
  }
}

TEST_CASE("statistics over ranks stay precise if the mean is far from zero") {
  const Made made;
  MadeUp samples(kShape, kClasses, 6);
  for (float& value : samples.inputs) value += 300;
  const Pass pass{.seed = 0, .sum_over_ranks = [](float*, std::size_t) {}}; // a single rank
  Model cpu(normFirst(), kShape), gpu(normFirst(), kShape);
  const Outcome wanted = outcome(kOnCpu, cpu, samples, pass),
                found = outcome(kOnGpu, gpu, samples, pass);
  CHECK(near(found.statistics, wanted.statistics));
}

} // namespace rondo::test
