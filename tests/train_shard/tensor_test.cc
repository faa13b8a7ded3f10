// Tensor parallel: slices of linear layers as values, and runs on them.
#include <cmath>
#include <limits>
#include <numeric>

#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/parallel/tensor/slices.h"

namespace rondo::test {

using training::Flatten;
using training::LayerValues;
using training::Linear;
using training::LinearCut;
using training::LinearSlice;
using training::Relu;
using training::tensorPlan;
using training::TensorPlan;

namespace {

const LayerValues kLayers = {Flatten{}, Linear{9}, Relu{}, Linear{6}, Relu{}, Linear{5}};
constexpr training::SampleShape kShape{1, 2, 4};

} // namespace

TEST_CASE("slices of all ranks make up every weight and bias, each value from one rank") {
  for (std::size_t ranks : {1, 2, 3, 4, 5}) {
    std::vector<TensorPlan> plans;
    for (std::size_t r = 0; r < ranks; ++r) plans.push_back(tensorPlan(kLayers, kShape, ranks, r));
    for (std::size_t l = 0; l < 3; ++l) {
      const LinearSlice& first = plans[0].linears[l];
      INFO(ranks << " ranks, linear layer " << l);
      std::vector<float> weight(first.outputs * first.inputs);
      std::iota(weight.begin(), weight.end(), 1.0F);
      std::vector<float> again(weight.size(), -1.0F);
      std::vector<int> biases(first.outputs);
      for (const TensorPlan& plan : plans) {
        const LinearSlice& slice = plan.linears[l];
        std::vector<float> own(slice.weightSize(), -2.0F);
        slice.takeWeight(weight.data(), own.data());
        slice.putWeight(own.data(), again.data());
        REQUIRE(std::count(own.begin(), own.end(), -2.0F) == 0);
        for (std::size_t b = slice.biasRange().begin; b < slice.biasRange().end; ++b) ++biases[b];
      }
      REQUIRE(again == weight);
      const int times = first.cut == LinearCut::whole ? static_cast<int>(ranks) : 1;
      REQUIRE(biases == std::vector<int>(first.outputs, times));
    }
  }
}

TEST_CASE("layers are cut by columns and rows in turn, with a sum behind each pair") {
  const TensorPlan plan = tensorPlan(kLayers, kShape, 2, 1);
  REQUIRE(plan.linears.size() == 3);
  CHECK(plan.linears[0].cut == LinearCut::columns);
  CHECK(plan.linears[1].cut == LinearCut::rows);
  CHECK(plan.linears[2].cut == LinearCut::whole);
  REQUIRE(plan.segments.size() == 2);
  CHECK(plan.segments[0].layers.size() == 4);
  CHECK(plan.segments[0].sums_output);
  CHECK(plan.segments[0].sums_gradient);
  CHECK(plan.segments[1].layers.size() == 2);
  CHECK(!plan.segments[1].sums_output);
  CHECK(!plan.segments[1].sums_gradient);
  CHECK(tensorPlan({Linear{4}, Linear{4}}, {8, 1, 1}, 2, 0).segments.size() == 2);
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
  CHECK(refusal({training::Convolution{4, {.kernel = 1}}}, 2) ==
        "train: strategy tensor: layer 0 is no linear layer, and has no features that it could be "
        "cut by");
  CHECK(refusal({Flatten{}, Linear{3}, Linear{8}}, 4) ==
        "train: strategy tensor: layer 1 has 3 features to be cut for 4 ranks");
}

#ifdef RONDO_HAVE_DNNL

namespace {

std::vector<double> lossesOf(int ranks, const TrainOptions& options) {
  std::vector<double> losses;
  trainAll(makeRanks(ranks), options,
           [&](const TrainProgress& progress) { losses.push_back(progress.loss); });
  return losses;
}

} // namespace

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
    const std::vector<double> losses = lossesOf(ranks, options);
    REQUIRE(losses.size() == expected.size());
    for (std::size_t step = 0; step < losses.size(); ++step) {
      INFO(ranks << " ranks, mesh \"" << mesh << "\", step " << step + 1);
      REQUIRE(std::abs(losses[step] - expected[step]) <= 1e-5 * std::abs(expected[step]));
    }
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
  CHECK(contains(refusal([](auto& options) { options.model = "cnn"; }), "layer 0 is no linear"));
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
