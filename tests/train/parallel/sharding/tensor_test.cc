// Tests tensor parallelism: slices of linear layers and convolutions as values, and training with
// them.
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/train/parallel/sharding/losses.h"
#include "tests/train/parallel/sharding/one_step.h"
#include "tests/train/parallel/sharding/saved_run.h"
#include "train/loop/compute_threads.h"
#include "train/loop/settings.h"
#include "train/parallel/strategy.h"
#include "train/parallel/tensor/plan.h"
#include "train/parallel/tensor/slices.h"
#include "train/parallel/tensor/tensor_model.h"

namespace rondo::test {

using training::BatchNorm;
using training::Convolution;
using training::Cut;
using training::Flatten;
using training::LayerValues;
using training::Linear;
using training::MaxPool;
using training::Relu;
using training::tensorPlan;
using training::TensorPlan;
using training::tensorPlans;
using training::WeightSlice;

namespace {

constexpr training::SampleShape kShape{2, 4, 4};
const LayerValues kLinear = {Flatten{}, Linear{9}, Relu{}, Linear{6}, Relu{}, Linear{5}};
/// A convolution without bias that is cut by rows, and one whose features are the inputs of a
/// linear layer.
const LayerValues kFilters = {Convolution{7, {.kernel = 3, .padding = 1}},
                              Relu{},
                              Convolution{6, {.kernel = 1}, false},
                              Relu{},
                              Convolution{5, {.kernel = 3, .padding = 1}},
                              MaxPool{{.kernel = 2, .stride = 2}},
                              Flatten{},
                              Linear{8},
                              Relu{},
                              Linear{4}};

/// The sizes of the whole weights.
std::vector<std::size_t> weightSizes(const LayerValues& layers) {
  training::Weights weights;
  place(layers, kShape, "", weights);
  std::vector<std::size_t> sizes;
  for (const training::Weight& weight : weights.learned) sizes.push_back(weight.size());
  return sizes;
}

std::string sums(const TensorPlan& plan) {
  std::string text;
  for (const training::LayerSums& one : plan.sums)
    text += one.output ? (one.gradient ? "B" : "o") : (one.gradient ? "g" : ".");
  return text;
}

} // namespace

TEST_CASE("the slices of all ranks form every weight, each value from one rank or from all") {
  for (const LayerValues& layers : {kLinear, kFilters})
    for (std::size_t ranks : {1, 2, 3, 4, 5}) {
      const std::vector<TensorPlan> plans = tensorPlans(layers, kShape, ranks);
      const std::vector<std::size_t> sizes = weightSizes(layers);
      REQUIRE(plans[0].weights.size() == sizes.size());
      for (std::size_t w = 0; w < sizes.size(); ++w) {
        INFO(ranks << " ranks, weight " << w);
        std::vector<float> weight(sizes[w]), again(sizes[w], -1.0F);
        std::iota(weight.begin(), weight.end(), 1.0F);
        std::size_t values = 0;
        for (const TensorPlan& plan : plans) {
          const WeightSlice& slice = plan.weights[w];
          REQUIRE(slice.outer * slice.features * slice.inner == sizes[w]);
          std::vector<float> own(slice.size(), -2.0F);
          slice.take(weight.data(), own.data());
          slice.put(own.data(), again.data());
          REQUIRE(std::count(own.begin(), own.end(), -2.0F) == 0);
          values += own.size();
        }
        REQUIRE(again == weight);
        REQUIRE(values == sizes[w] * (plans[0].weights[w].cut == Cut::everywhere ? ranks : 1));
      }
    }
}

TEST_CASE("layers are cut alternately by columns and rows, with sums at both ends of a pair") {
  CHECK(sums(tensorPlan(kLinear, kShape, 2, 1)) == "...o..");
  CHECK(sums(tensorPlan(kFilters, kShape, 2, 1)) == "..o.g..o..");
  CHECK(sums(tensorPlan({Flatten{}, Linear{4}, Linear{4}}, kShape, 2, 0)) == "..o.");
  const TensorPlan plan = tensorPlan(kFilters, kShape, 2, 1);
  CHECK(std::get<Convolution>(plan.layers[0]).channels == 4);
  CHECK(std::get<Convolution>(plan.layers[2]).channels == 6);
  CHECK(std::get<Convolution>(plan.layers[4]).channels == 3);
  CHECK(std::get<Linear>(plan.layers[7]).outputs == 8);
  // Each channel becomes four features of the linear layer after the pool.
  const WeightSlice& rows = plan.weights[5];
  CHECK(rows.outer == 8);
  CHECK(rows.features == 20);
  CHECK(rows.own.begin == 8);
  CHECK(rows.own.end == 20);
  CHECK(plan.weights[7].cut == Cut::everywhere);
  const training::SummedFloats floats =
      summedFloats(plan, kShape, training::LayerRange{0, kFilters.size()});
  CHECK(floats.forward == 6 * 16 + 8);
  CHECK(floats.backward == 6 * 16);
}

TEST_CASE("models that cannot be cut are refused with the layer") {
  const auto refusal = [](const LayerValues& layers, std::size_t ranks) -> std::string {
    try {
      tensorPlan(layers, kShape, ranks, 0);
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::invalid_argument);
      return error.what();
    }
    return "it was taken";
  };
  CHECK(contains(refusal({Convolution{4, {.kernel = 1}}, BatchNorm{}}, 2),
                 "train: axis tensor: layer 1 cannot be cut by features; linear layers and "
                 "convolutions can"));
  CHECK(refusal({Flatten{}, Linear{3}, Linear{8}}, 4) ==
        "train: axis tensor: layer 1 has 3 features, too few for 4 ranks");
}

#ifdef RONDO_HAVE_DNNL

TEST_CASE("steps with cut convolutions have the losses of one rank") {
  TrainOptions whole = smallRun();
  whole.model = "cnn";
  whole.optimizer.learning_rate = 0.002; // small enough that rounding errors do not grow
  whole.data = "synthetic:shape=1x8x8,train=400,test=100";
  whole.steps = 10;
  const std::vector<double> expected = lossesOf(1, whole);
  const double accuracy = trainAll(makeRanks(1), whole).test_accuracy;
  for (const auto& [ranks, mesh] :
       std::vector<std::pair<int, std::string>>{{2, ""}, {3, ""}, {4, "data=2,tensor=2"}}) {
    TrainOptions options = whole;
    options.strategy = "tensor";
    options.sharding.mesh = mesh;
    INFO(ranks << " ranks, mesh \"" << mesh << "\"");
    requireClose(expected, lossesOf(ranks, options));
    REQUIRE(std::abs(trainAll(makeRanks(ranks), options).test_accuracy - accuracy) < 0.02);
  }
}

TEST_CASE("fifty steps with cut layers have the losses of one rank") {
  TrainOptions whole = smallRun();
  whole.data = "synthetic:shape=1x8x8,train=1000,test=300";
  whole.steps = 50;
  const std::vector<double> expected = lossesOf(1, whole);
  for (const auto& [ranks, mesh] : std::vector<std::pair<int, std::string>>{
           {1, ""}, {2, ""}, {3, ""}, {4, "data=2,tensor=2"}, {4, "tensor=2,data=2"}}) {
    TrainOptions options = whole;
    options.strategy = "tensor";
    options.sharding.mesh = mesh;
    INFO(ranks << " ranks, mesh \"" << mesh << "\"");
    requireClose(expected, lossesOf(ranks, options));
  }
}

TEST_CASE("a run with cut layers continues from another strategy's file, bit for bit") {
  TrainOptions options = smallRun();
  options.strategy = "tensor";
  requireThereAndBack(3, options);
  options.sharding.mesh = "data=2,tensor=2";
  requireThereAndBack(4, options);
}

namespace {

using Events = std::vector<training::TimelineEvent>;

Events eventsOf(const OneStep& step, const std::string& name) {
  Events all;
  for (const training::TimelineEvent& event : step.timeline.events)
    if (event.name.starts_with(name)) all.push_back(event);
  return all;
}

double millisecondsOf(const Events& events) {
  double sum = 0;
  for (const training::TimelineEvent& event : events) sum += event.seconds * 1000;
  return sum;
}

/// Requires that sums are separate from passes, on the timeline and in the times.
void requireApart(const OneStep& step) {
  const Events sums = eventsOf(step, "sum"), forward = eventsOf(step, "forward"),
               backward = eventsOf(step, "backward");
  for (const Events& passes : {forward, backward})
    for (const training::TimelineEvent& pass : passes)
      for (const training::TimelineEvent& sum : sums) {
        REQUIRE(sum.lane == training::Lane::communication);
        REQUIRE((pass.begin + pass.seconds <= sum.begin + 1e-8 ||
                 sum.begin + sum.seconds <= pass.begin + 1e-8));
      }
  CHECK(std::abs(step.times.forward - millisecondsOf(forward)) < 1e-3);
  CHECK(std::abs(step.times.backward - millisecondsOf(backward)) < 1e-3);
  for (const training::TimelineEvent& sum : sums) CHECK(sum.seconds > 0);
  CHECK(step.times.communication >= millisecondsOf(sums));
}

} // namespace

TEST_CASE("sums within passes count as communication, and not as time of the passes") {
  TrainOptions options = smallRun();
  options.strategy = "tensor";
  for (const OneStep& step : oneStep(2, options)) {
    std::vector<std::uint64_t> bytes;
    for (const training::TimelineEvent& sum : eventsOf(step, "sum")) bytes.push_back(sum.bytes);
    // The outputs of layers 3 and 7, and the gradient of the input of layer 5.
    CHECK(bytes == std::vector<std::uint64_t>{40 * 128 * 4, 40 * 10 * 4, 40 * 128 * 4});
    requireApart(step);
  }
  options = meshRun("pipe=2,tensor=2");
  std::uint64_t all = 0; // the cut depends on measured times
  for (const OneStep& step : oneStep(4, options)) {
    for (const training::TimelineEvent& sum : eventsOf(step, "sum")) all += sum.bytes;
    requireApart(step);
  }
  CHECK(all == 2 * 40 * (128 + 10 + 128) * 4);
}

TEST_CASE("a loss that is not finite names the same step and layer as on one rank") {
  TrainOptions options = smallRun();
  options.optimizer.learning_rate = 1e4;
  const auto said = [&](int ranks) {
    auto comms = makeRanks(ranks);
    const Thrown thrown = thrownByAll(comms, [&](Communicator& comm) { train(comm, options); });
    REQUIRE(thrown.code == ErrorCode::aborted);
    return thrown.text;
  };
  const std::string whole = said(1);
  INFO(whole);
  REQUIRE(contains(whole, " is not finite; the first values of that kind come from layer "));
  options.strategy = "tensor";
  CHECK(said(2) == whole);
}

TEST_CASE("the first layer that is not finite is found on any rank") {
  using namespace training;
  const LayerValues layers = {Linear{2}, Linear{2}, Linear{2}};
  const SampleShape shape{1, 1, 1};
  const float input = 1;
  const std::uint8_t label = 0;
  const std::uint32_t number = 0;
  const Batch batch{1, &input, &label, &number};
  // Fills the weights of `layer` with `value`, on rank `rank` or on all ranks (-1). Returns the
  // first layer that is not finite.
  const auto first = [&](const std::string& layer, float value, int rank) {
    std::vector<std::string> found(2);
    auto ranks = makeRanks(2);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& line) -> std::string {
              TensorModel model(line, layers, shape, 1);
              for (Weight* weight : model.weights()) {
                const bool bad =
                    weight->name.starts_with(layer) && (rank == -1 || rank == line.rank());
                std::fill_n(weight->value, weight->size(), bad ? value : 1.0F);
              }
              model.weightsChanged();
              model.forward(batch, {}, 0);
              found[static_cast<std::size_t>(line.rank())] = model.firstNotFinite(0);
              return {};
            })) == "");
    REQUIRE(found[0] == found[1]);
    return found[0];
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(first("0.", nan, 1) == "layer 0"); // rank 0 sees it after the sum of layer 1
  CHECK(first("1.", nan, 1) == "layer 1");
  // The output of each rank is finite, the sum is not.
  CHECK(first("1.weight", 1e38F, -1) == "layer 1");
  CHECK(first("2.weight", nan, -1) == "layer 2");
  CHECK(first("", 1, -1) == "the loss");
}

TEST_CASE("the plan of a cut step names its cuts, sums and bytes") {
  TrainOptions options = smallRun();
  options.strategy = "tensor";
  options.sharding.mesh = "data=2,tensor=2";
  const std::string plan = trainSchedule(options, 4);
  INFO(plan);
  CHECK(
      contains(plan, "mesh data=2,tensor=2: ranks 0 1; ranks 2 3 (each group holds one model)\n"));
  CHECK(contains(plan,
                 "layer 1 (linear): by columns, rank 0 has 0 to 127 of 256\n"
                 "layer 3 (linear): by rows, rank 0 has 0 to 127 of 256\n"));
  CHECK(contains(plan,
                 "    forward    layer 0 (flatten) to layer 3 (linear)\n"
                 "  AllReduce    output of layer 3 (linear), 10240 bytes\n"));
  // The model's last layer is 7; only the loss follows its sum.
  CHECK(contains(plan,
                 "  AllReduce    output of layer 7 (linear), 800 bytes\n"
                 "    forward    the loss\n"
                 "    backward   the loss\n"));
  CHECK(!contains(plan, "layer 8"));
  CHECK(contains(plan,
                 "    backward   layer 5 (linear) to layer 7 (linear)\n"
                 "  AllReduce    input gradient of layer 5 (linear), 10240 bytes\n"));
  CHECK(contains(plan, "AllReduce    the slices' gradients, "));
  const std::string sent =
      std::to_string(static_cast<std::size_t>(trainAll(makeRanks(4), options).bytes_per_step));
  CHECK(contains(plan, "all ranks together send " + sent + " bytes in a step\n"));
}

TEST_CASE("a plan names the axis of each cut, also for layers with one output or input") {
  // A weight cut by columns is [1 x outputs x inputs]. A weight of one output cut by rows has the
  // same form.
  const auto of = [](const LayerValues& layers) {
    return tensorPlanText(layers, kShape, training::Mesh::parse("tensor=2", 2), 4);
  };
  const std::string one = of({Flatten{}, Linear{2}, Linear{1}, Linear{3}});
  INFO(one);
  CHECK(contains(one, "layer 1 (linear): by columns, rank 0 has 0 to 0 of 2\n"));
  CHECK(contains(one, "layer 2 (linear): by rows, rank 0 has 0 to 0 of 2\n"));
  CHECK(contains(one, "layer 3 (linear): whole on every rank\n"));
  CHECK(contains(one, "    forward    layer 3 (linear), the loss\n"));
}

TEST_CASE("cut runs refuse unsupported options, and hold less memory on each rank") {
  const auto refusal = [](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = smallRun();
    options.strategy = "tensor";
    change(options);
    auto ranks = makeRanks(2);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    REQUIRE(thrown.code == ErrorCode::invalid_argument);
    return thrown.text;
  };
  CHECK(contains(refusal([](auto& options) {
                   options.model = "resnet18";
                   options.data = "synthetic:shape=3x32x32,train=40,test=20";
                 }),
                 "layer 1 cannot be cut by features"));
  CHECK(contains(refusal([](auto& options) { options.sharding.mesh = "pipe=2"; }), "not pipe"));
  CHECK(
      contains(refusal([](auto& options) { options.optimizer.name = "lars"; }), "optimizer lars"));
  CHECK(contains(refusal([](auto& options) { options.optimizer.clip = 1; }), "takes no clip"));
  TrainOptions options = smallRun();
  const std::uint64_t whole = trainAll(makeRanks(2), options).held_bytes;
  options.strategy = "tensor";
  const std::uint64_t cut = trainAll(makeRanks(2), options).held_bytes;
  CHECK(cut < whole * 51 / 100);
}

// Proves: in lines of tensor and of pipeline. The last of the model's 17 linear layers is not cut.
TEST_CASE("verification compares the weights that all ranks of a line have whole") {
  TrainOptions options = smallRun();
  options.model = "even";
  for (const auto& [strategy, mesh, size] : std::vector<std::tuple<std::string, std::string, int>>{
           {"tensor", "", 2}, {"pipeline", "pipe=2,tensor=2", 4}}) {
    INFO(strategy);
    options.strategy = strategy;
    options.sharding.mesh = mesh;
    auto ranks = makeRanks(size);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
      TrainOptions own = options;
      if (comm.rank() + 1 == comm.size()) own.optimizer.learning_rate *= 2;
      const training::ComputeThreads threads;
      const training::Data data = training::load(options);
      const auto one = training::strategyFor(own, comm.size()).make({comm, own, data});
      one->run({}, 1, nullptr);
      one->verify("now");
    });
    INFO(thrown.text);
    CHECK(thrown.code == ErrorCode::mismatch);
    CHECK(contains(thrown.text, "now: the tensor-parallel ranks have different copies of 33."));
  }
}

#endif

} // namespace rondo::test
