// Tensor parallel: slices of linear layers and convolutions as values, and runs on them.
#include <cmath>
#include <limits>
#include <numeric>

#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/train_shard/losses.h"
#include "train/parallel/tensor/slices.h"

namespace rondo::test {

using training::BatchNorm;
using training::Convolution;
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
/// A convolution without bias by rows, and one whose features are linear layers' behind it.
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

/// Of the layers as a whole.
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

TEST_CASE("slices of all ranks make up every weight, each value from one rank or from all") {
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
        REQUIRE(values == sizes[w] * (plans[0].weights[w].everywhere ? ranks : 1));
      }
    }
}

TEST_CASE("layers are cut by columns and rows in turn, with sums where a pair begins and ends") {
  CHECK(sums(tensorPlan(kLinear, kShape, 2, 1)) == "...o..");
  CHECK(sums(tensorPlan(kFilters, kShape, 2, 1)) == "..o.g..o..");
  CHECK(sums(tensorPlan({Flatten{}, Linear{4}, Linear{4}}, kShape, 2, 0)) == "..o.");
  const TensorPlan plan = tensorPlan(kFilters, kShape, 2, 1);
  CHECK(std::get<Convolution>(plan.layers[0]).channels == 4);
  CHECK(std::get<Convolution>(plan.layers[2]).channels == 6);
  CHECK(std::get<Convolution>(plan.layers[4]).channels == 3);
  CHECK(std::get<Linear>(plan.layers[7]).outputs == 8);
  // Each channel is four features of the linear layer behind the pool.
  const WeightSlice& rows = plan.weights[5];
  CHECK(rows.outer == 8);
  CHECK(rows.features == 20);
  CHECK(rows.own.begin == 8);
  CHECK(rows.own.end == 20);
  CHECK(plan.weights[7].everywhere);
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
        "train: axis tensor: layer 1 has 3 features to be cut for 4 ranks");
}

#ifdef RONDO_HAVE_DNNL

TEST_CASE("steps of cut convolutions lose what one rank with whole ones does") {
  TrainOptions whole = smallRun();
  whole.model = "cnn";
  whole.learning_rate = 0.002; // at which a rounding stays one
  whole.data = "synthetic:shape=1x8x8,train=400,test=100";
  whole.steps = 10;
  const std::vector<double> expected = lossesOf(1, whole);
  const double accuracy = trainAll(makeRanks(1), whole).test_accuracy;
  for (const auto& [ranks, mesh] :
       std::vector<std::pair<int, std::string>>{{2, ""}, {3, ""}, {4, "data=2,tensor=2"}}) {
    TrainOptions options = whole;
    options.strategy = "tensor";
    options.mesh = mesh;
    INFO(ranks << " ranks, mesh \"" << mesh << "\"");
    requireClose(expected, lossesOf(ranks, options));
    REQUIRE(std::abs(trainAll(makeRanks(ranks), options).test_accuracy - accuracy) < 0.02);
  }
}

TEST_CASE("fifty steps of cut layers lose what one rank with whole ones does") {
  TrainOptions whole = smallRun();
  whole.data = "synthetic:shape=1x8x8,train=1000,test=300";
  whole.steps = 50;
  const std::vector<double> expected = lossesOf(1, whole);
  for (const auto& [ranks, mesh] : std::vector<std::pair<int, std::string>>{
           {1, ""}, {2, ""}, {3, ""}, {4, "data=2,tensor=2"}, {4, "tensor=2,data=2"}}) {
    TrainOptions options = whole;
    options.strategy = "tensor";
    options.mesh = mesh;
    INFO(ranks << " ranks, mesh \"" << mesh << "\"");
    requireClose(expected, lossesOf(ranks, options));
  }
}

TEST_CASE("a run goes on with cut layers from another strategy's file, bit for bit") {
  TemporaryFolder folder;
  for (const std::string optimizer : {"sgd", "adamw"})
    for (const auto& [ranks, mesh] :
         std::vector<std::pair<int, std::string>>{{3, ""}, {4, "data=2,tensor=2"}}) {
      INFO(optimizer << ", " << ranks << " ranks");
      TrainOptions options = smallRun();
      options.optimizer = optimizer;
      options.learning_rate = 0.002;
      options.checkpoint = folder.file("file");
      options.steps = 2;
      const TrainReport saved = trainAll(makeRanks(1), options);
      const auto bytes = readRaw(options.checkpoint);
      options.resume = true;
      options.strategy = "tensor";
      options.mesh = mesh;
      REQUIRE(trainAll(makeRanks(ranks), options).parameter_hash == saved.parameter_hash);
      // And back: what the cut run saved is what a whole one goes on from.
      options.steps = 3;
      const TrainReport cut = trainAll(makeRanks(ranks), options);
      options.strategy = "ddp";
      options.mesh = "";
      REQUIRE(trainAll(makeRanks(1), options).parameter_hash == cut.parameter_hash);
      options.steps = 6;
      const TrainReport mixed = trainAll(makeRanks(1), options);
      writeRaw(options.checkpoint, bytes);
      const TrainReport whole = trainAll(makeRanks(1), options);
      REQUIRE(std::abs(mixed.epoch_loss[1] - whole.epoch_loss[1]) <= 1e-4 * whole.epoch_loss[1]);
    }
}

TEST_CASE("the plan of a cut step names its cuts, sums and bytes") {
  TrainOptions options = smallRun();
  options.strategy = "tensor";
  options.mesh = "data=2,tensor=2";
  const std::string plan = trainSchedule(options, 4);
  INFO(plan);
  CHECK(contains(plan, "mesh data=2,tensor=2: ranks 0 1; ranks 2 3 have a model together each\n"));
  CHECK(contains(plan,
                 "layer 1: by columns, rank 0 has 0 to 127 of 256\n"
                 "layer 3: by rows, rank 0 has 0 to 127 of 256\n"));
  CHECK(contains(plan,
                 "    forward    layers 0 to 3\n"
                 "  AllReduce    what layer 3 makes, 10240 bytes\n"));
  CHECK(contains(plan,
                 "    backward   layers 5 to 7\n"
                 "  AllReduce    the gradient in front of layer 5, 10240 bytes\n"));
  CHECK(contains(plan, "AllReduce    the slices' gradients, "));
  const std::string sent =
      std::to_string(static_cast<std::size_t>(trainAll(makeRanks(4), options).bytes_per_step));
  CHECK(contains(plan, "all ranks together send " + sent + " bytes in a step\n"));
}

TEST_CASE("cut runs refuse what they cannot do, and hold less on each rank") {
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
  CHECK(contains(refusal([](auto& options) { options.mesh = "pipe=2"; }), "not pipe"));
  CHECK(contains(refusal([](auto& options) { options.optimizer = "lars"; }), "optimizer lars"));
  CHECK(contains(refusal([](auto& options) { options.clip = 1; }), "takes no clip"));
  TrainOptions options = smallRun();
  const std::uint64_t whole = trainAll(makeRanks(2), options).held_bytes;
  options.strategy = "tensor";
  const std::uint64_t cut = trainAll(makeRanks(2), options).held_bytes;
  CHECK(cut < whole * 51 / 100);
}

#endif

} // namespace rondo::test
