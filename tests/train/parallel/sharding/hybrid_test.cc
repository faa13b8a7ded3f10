// Tests parallel pipelines: a mesh of data and pipe trains like one rank.
#include <cmath>
#include <limits>

#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/train/parallel/sharding/losses.h"
#include "tests/train/parallel/sharding/one_step.h"
#include "tests/train/parallel/sharding/saved_run.h"
#include "train/parallel/mesh.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

TEST_CASE("two pipelines of two stages have the losses of one rank, in every order") {
  TrainOptions whole = smallRun();
  whole.accumulate = 4;
  whole.optimizer.clip = 0.5;
  const std::vector<double> expected = lossesOf(1, whole);
  for (const char* kind : {"naive", "gpipe", "1f1b", "interleaved"})
    for (const char* mesh : {"data=2,pipe=2", "pipe=2,data=2"})
      for (bool overlap : {true, false}) {
        INFO(kind << ", mesh " << mesh << ", overlap " << overlap);
        TrainOptions options = meshRun(mesh);
        options.pipeline.order = kind;
        options.optimizer.clip = 0.5;
        options.gradients.overlap = overlap;
        requireClose(expected, lossesOf(4, options));
      }
}

TEST_CASE("data, pipe and shard in one mesh have the losses of one rank, on 8 ranks and fewer") {
  TrainOptions whole = smallRun();
  whole.accumulate = 4;
  whole.optimizer.clip = 0.5;
  const std::vector<double> expected = lossesOf(1, whole);
  for (const auto& [ranks, mesh] :
       std::vector<std::pair<int, std::string>>{{8, "data=2,pipe=2,shard=2"},
                                                {8, "shard=2,pipe=4"},
                                                {4, "pipe=2,shard=2"},
                                                {5, "shard=5,pipe=1"}})
    for (const char* kind : {"1f1b", "interleaved"})
      for (bool overlap : {true, false}) {
        TrainOptions options = meshRun(mesh);
        options.pipeline.order = kind;
        options.optimizer.clip = 0.5;
        options.gradients.overlap = overlap;
        if (kind == std::string("interleaved") && mesh.find("pipe=2") == std::string::npos)
          continue; // four parts in all, two on each stage
        INFO(kind << ", mesh " << mesh << ", overlap " << overlap);
        requireClose(expected, lossesOf(ranks, options));
      }
}

TEST_CASE("axis shard holds optimizer state once, and sends as many bytes as whole stages") {
  // As many stages as linear layers: only one cut is possible, whatever the measured times are.
  TrainOptions options = meshRun("data=2,pipe=4");
  options.optimizer.name = "adamw"; // keeps two arrays
  options.optimizer.learning_rate = 0.002;
  const TrainReport whole = trainAll(makeRanks(8), options);
  options.sharding.mesh = "shard=2,pipe=4";
  const TrainReport shared = trainAll(makeRanks(8), options);
  // Of five arrays (weights, gradients twice, two of the optimizer) the last two are halved. The
  // tolerance is for padding.
  CHECK(shared.held_bytes < whole.held_bytes * 82 / 100);
  CHECK(shared.held_bytes > whole.held_bytes * 78 / 100);
  CHECK(shared.bytes_per_step == whole.bytes_per_step);
}

TEST_CASE("every optimizer trains on three axes as with parallel pipelines", "[sums]") {
  for (const TrainChoice& optimizer : trainOptimizers()) {
    TrainOptions options = meshRun("data=4,pipe=2");
    options.optimizer.name = optimizer.name;
    options.optimizer.learning_rate = 0.002;
    options.optimizer.weight_decay = 0.01;
    const std::vector<double> expected = lossesOf(8, options);
    options.sharding.mesh = "data=2,pipe=2,shard=2";
    INFO(optimizer.name);
    requireClose(expected, lossesOf(8, options));
  }
}

namespace {

/// When the rank first began to reduce gradients, and when its last backward pass ended.
std::pair<double, double> reductionAndEnd(const training::Timeline& timeline) {
  double reduction = std::numeric_limits<double>::infinity(), end = 0;
  for (const training::TimelineEvent& event : timeline.events) {
    if (event.name.starts_with("backward")) end = std::max(end, event.begin + event.seconds);
    if (event.name.starts_with("bucket") || event.name.starts_with("reduce unit"))
      reduction = std::min(reduction, event.begin);
  }
  return {reduction, end};
}

} // namespace

TEST_CASE("a stage reduces its gradients while earlier stages still run backward passes") {
  struct Case {
    int ranks;
    const char* mesh;
    bool overlap;
  };
  for (const Case& one :
       {Case{4, "data=2,pipe=2", true}, Case{4, "data=2,pipe=2", false},
        Case{4, "pipe=2,shard=2", true}, Case{8, "data=2,pipe=2,shard=2", true}}) {
    TrainOptions options = meshRun(one.mesh);
    options.gradients.overlap = one.overlap;
    const std::vector<OneStep> steps = oneStep(one.ranks, options);
    const training::Mesh mesh = training::Mesh::parse(one.mesh, one.ranks);
    for (int rank = 0; rank < one.ranks; ++rank) {
      const std::vector<int> pipe = mesh.groupOf({training::Axis::pipe}, rank);
      const auto back =
          reductionAndEnd(steps[static_cast<std::size_t>(pipe.front())].timeline).second;
      const auto begin =
          reductionAndEnd(steps[static_cast<std::size_t>(pipe.back())].timeline).first;
      INFO(one.mesh << ", overlap " << one.overlap << ", the pipeline of rank " << rank);
      REQUIRE(std::isfinite(begin));
      REQUIRE(back > 0);
      REQUIRE((begin < back) == one.overlap);
    }
  }
}

TEST_CASE("pipelines of one stage equal data-parallel ranks, bit for bit") {
  TrainOptions whole = smallRun();
  whole.accumulate = 2;
  for (int ranks : kWholeGrid ? std::vector<int>{2, 3} : std::vector<int>{3}) {
    if (whole.batch % (2 * ranks) != 0) whole.batch = 12 * ranks;
    TrainOptions options = meshRun("data=" + std::to_string(ranks) + ",pipe=1");
    options.batch = whole.batch;
    requireSame(trainAll(makeRanks(ranks), options), trainAll(makeRanks(ranks), whole));
  }
}

TEST_CASE("running statistics are those of the batches of all pipelines") {
  if (!kWholeGrid) return; // eleven million weights
  TrainOptions whole = smallRun();
  whole.model = "resnet18";
  whole.data = "synthetic:shape=1x8x8,train=8,test=8";
  whole.batch = 8;
  whole.steps = 1;
  TrainOptions options = whole;
  options.strategy = "pipeline";
  options.sharding.mesh = "data=2,pipe=1";
  requireSame(trainAll(makeRanks(2), options), trainAll(makeRanks(2), whole));
}

TEST_CASE("a run of parallel pipelines continues where it was saved, and under other strategies",
          "[sums]") {
  TrainOptions options = meshRun("data=2,pipe=2");
  options.optimizer.name = "adamw";
  options.optimizer.learning_rate = 0.002;
  const TrainReport whole = trainAll(makeRanks(4), options);
  SavedRun saved(4, options, 2);
  requireSame(saved.goOn(4, options), whole);
  // So does a run on three axes, also after switching between two and three axes.
  for (const auto& [ranks, mesh] : std::vector<std::pair<int, std::string>>{
           {4, "pipe=2,shard=2"}, {8, "shard=2,data=2,pipe=2"}}) {
    INFO(mesh);
    options.sharding.mesh = mesh;
    const TrainReport straight = saved.goOn(ranks, options);
    requireCloseEnd(straight, whole, 1e-5);
    REQUIRE(saved.goOn(ranks, options, 4).steps == 4);
    requireSame(saved.goFurther(ranks, options), straight);
  }
  // Other strategies read the same values from it.
  for (const char* strategy : {"ddp", "fsdp", "tensor"}) {
    INFO(strategy);
    TrainOptions other = smallRun();
    other.strategy = strategy;
    other.optimizer.name = "adamw";
    REQUIRE(saved.goOn(3, other, 2).parameter_hash == saved.report().parameter_hash);
  }
}

TEST_CASE("meshes without a pipeline are refused, and plans name the exchange between pipelines") {
  const auto refusal = [](const std::string& mesh, int batch) {
    TrainOptions options = meshRun(mesh);
    options.batch = batch;
    auto ranks = makeRanks(4);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    REQUIRE(thrown.code == ErrorCode::invalid_argument);
    return thrown.text;
  };
  CHECK(contains(refusal("shard=2,pipe=2", 41), "must be a multiple of its 2 pipelines"));
  CHECK(contains(refusal("data=2,pipe=2", 41), "must be a multiple of its 2 pipelines"));
  // The batch of the run, not the part of a pipeline.
  CHECK(
      contains(refusal("data=2,pipe=2", 42),
               "batch is 42, must be a multiple of the number of pipelines, 2, times accumulate, 2 "
               "micro-batches of one size"));
  CHECK(contains(refusal("data=2,pipe=4", 40), "its axes need 8 ranks in all"));
  TrainOptions grouped = meshRun("shard=2,pipe=2");
  grouped.gradients.groups = 2;
  auto ranks = makeRanks(4);
  CHECK(contains(thrownByAll(ranks, [&](Communicator& comm) { train(comm, grouped); }).text,
                 "groups is 2, but with axis shard a stage uses one communicator"));
  CHECK(contains(trainSchedule(meshRun("data=2,pipe=2,shard=2"), 8),
                 "4 parallel pipelines, mesh data=2,pipe=2,shard=2: ReduceScatter of a "
                 "stage's gradients between 2 ranks, then AllReduce of each shard between groups"));
  CHECK(contains(trainSchedule(meshRun("data=2,pipe=2"), 4),
                 "2 parallel pipelines, mesh data=2,pipe=2: AllReduce"));
}

#endif

} // namespace rondo::test
