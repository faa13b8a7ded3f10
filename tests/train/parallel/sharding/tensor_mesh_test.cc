// Tests data, pipe and tensor in one mesh: pipelines in which several ranks form each stage.
#include <array>
#include <cmath>
#include <map>

#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/train/parallel/sharding/losses.h"
#include "tests/train/parallel/sharding/saved_run.h"
#include "train/aligned.h"
#include "train/loop/replica.h"
#include "train/parallel/tensor/tensor_model.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

struct Case {
  int ranks;
  std::string mesh;
};

} // namespace

TEST_CASE("data, pipe and tensor in one mesh have the losses of one rank, on 8 ranks and fewer") {
  const std::vector<double> expected = lossesOf(1, smallRun(), true);
  // With four stages the MLP is also cut between columns and rows.
  for (const auto& [ranks, mesh] : std::vector<Case>{{8, "data=2,pipe=2,tensor=2"},
                                                     {8, "tensor=2,pipe=4"},
                                                     {6, "pipe=2,tensor=3"},
                                                     {4, "tensor=2,data=2,pipe=1"}})
    for (const char* kind : {"gpipe", "1f1b", "interleaved"}) {
      if (kind == std::string("interleaved") && mesh.find("pipe=2") == std::string::npos) continue;
      TrainOptions options = meshRun(mesh);
      options.pipeline.order = kind;
      INFO(kind << ", mesh " << mesh);
      requireClose(expected, lossesOf(ranks, options, true));
      options.pipeline.recompute = true;
      options.gradients.overlap = false;
      requireClose(expected, lossesOf(ranks, options, true));
    }
}

TEST_CASE("convolutions work in pipelines of cut layers") {
  TrainOptions whole = smallRun();
  whole.model = "cnn";
  whole.optimizer.learning_rate = 0.002; // small enough that rounding errors do not grow
  whole.data = "synthetic:shape=1x8x8,train=400,test=100";
  whole.steps = 6;
  const std::vector<double> expected = lossesOf(1, whole, true);
  for (const auto& [ranks, mesh] :
       std::vector<Case>{{8, "data=2,pipe=2,tensor=2"}, {8, "pipe=4,tensor=2"}}) {
    TrainOptions options = whole;
    options.strategy = "pipeline";
    options.accumulate = 2;
    options.sharding.mesh = mesh;
    INFO(mesh);
    requireClose(expected, lossesOf(ranks, options, true));
  }
}

TEST_CASE("a part that ends after a layer cut by rows outputs all features") {
  using namespace training;
  const LayerValues layers = {Linear{6}, Linear{4}, Linear{5}, Linear{3}};
  const SampleShape shape{8, 1, 1};
  AlignedVector<float> inputs(3 * shape.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i % 7) - 3;
  const std::array<std::uint8_t, 3> labels = {0, 2, 1};
  const std::array<std::uint32_t, 3> samples = {0, 1, 2};
  const Batch batch{3, inputs.data(), labels.data(), samples.data()};
  Replica whole(layers, shape, kAllLayers, 1);
  const double expected = whole.network().forward(batch, {});
  const double scored = whole.network().evaluate(batch).loss;
  for (int size : {1, 2, 3}) {
    auto ranks = makeRanks(size);
    REQUIRE(
        firstComplaint(onRanks(ranks, [&](Communicator& line) -> std::string {
          TensorModel front(line, layers, shape, 1, {0, 2}), back(line, layers, shape, 1, {2, 4});
          Batch at = batch;
          front.forward(batch, {}, 0);
          at.inputs = front.output(0);
          const double loss = back.forward(at, {}, 0);
          at.inputs = front.evaluateOutput(batch);
          const double score = back.evaluate(at).loss;
          if (std::abs(loss - expected) < 1e-5 && std::abs(score - scored) < 1e-5) return {};
          return std::to_string(loss) + " and " + std::to_string(score);
        })) == "");
  }
}

TEST_CASE("initial values and their hash equal those of one rank") {
  TrainOptions options = smallRun();
  options.steps = 1;
  options.optimizer.learning_rate = 0;
  const std::uint64_t expected = trainAll(makeRanks(1), options).parameter_hash;
  for (const char* mesh : {"data=2,pipe=2,tensor=2", "tensor=4,pipe=2"}) {
    TrainOptions cut = meshRun(mesh);
    cut.steps = 1;
    cut.optimizer.learning_rate = 0;
    INFO(mesh);
    CHECK(trainAll(makeRanks(8), cut).parameter_hash == expected);
  }
}

TEST_CASE("a run of cut pipelines continues from one rank's file, bit for bit, and back") {
  TrainOptions options = smallRun();
  options.strategy = "pipeline";
  options.sharding.mesh = "data=2,pipe=2,tensor=2";
  options.accumulate = 2;
  requireThereAndBack(8, options);
}

TEST_CASE("a mesh with tensor sends and holds as much as its formula says") {
  TrainOptions options = meshRun("pipe=2,tensor=2");
  const TrainReport report = trainAll(makeRanks(4), options);
  // The cut depends on measured times. Between columns and rows each rank sends its own features.
  const std::map<std::size_t, double> sent = {{3, 256}, {5, 2 * 128}, {7, 64}};
  // After both pairs, and in the backward pass before the second.
  const double summed = 128 + 10 + 128;
  CHECK(report.bytes_per_step ==
        2 * 4 * options.batch * (sent.at(report.pipeline.parts[0].end) + summed));
  // With one stage as many bytes as with the strategy tensor.
  options.sharding.mesh = "data=2,tensor=2,pipe=1";
  const TrainReport alone = trainAll(makeRanks(4), options);
  TrainOptions tensor = smallRun();
  tensor.strategy = "tensor";
  tensor.sharding.mesh = "data=2,tensor=2";
  CHECK(alone.bytes_per_step == trainAll(makeRanks(4), tensor).bytes_per_step);
  // All forward passes except the last one are recomputed.
  options.pipeline.order = "gpipe";
  options.pipeline.recompute = true;
  const double again = trainAll(makeRanks(4), options).bytes_per_step - alone.bytes_per_step;
  CHECK(again > 0);
  CHECK(again <= 2 * 4 * options.batch * (128 + 10));
  options.sharding.mesh = "";
  options.pipeline.order = "1f1b";
  options.pipeline.recompute = false;
  CHECK(alone.held_bytes < trainAll(makeRanks(1), options).held_bytes * 52 / 100);
}

TEST_CASE("impossible meshes with tensor are refused, and plans name its sums") {
  const auto refusal = [](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = meshRun("pipe=2,tensor=2");
    change(options);
    auto ranks = makeRanks(4);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    REQUIRE(thrown.code == ErrorCode::invalid_argument);
    return thrown.text;
  };
  CHECK(contains(refusal([](auto& options) { options.sharding.mesh = "shard=2,tensor=2"; }),
                 "use one of shard and tensor"));
  CHECK(contains(refusal([](auto& options) { options.optimizer.clip = 1; }),
                 "axis tensor does not support clip"));
  CHECK(contains(refusal([](auto& options) { options.optimizer.name = "lars"; }),
                 "optimizer lars cannot train with axis tensor"));
  CHECK(contains(refusal([](auto& options) {
                   options.model = "resnet18";
                   options.data = "synthetic:shape=3x32x32,train=40,test=20";
                 }),
                 "layer 1 cannot be cut by features"));
  CHECK(contains(trainSchedule(meshRun("data=2,pipe=2,tensor=2"), 8),
                 "2 ranks form each stage, each with its features: AllReduce of up to "));
}

#endif

} // namespace rondo::test
