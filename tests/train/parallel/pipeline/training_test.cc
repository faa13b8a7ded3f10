// Tests that training through a pipeline gives the results of one rank.
#include <cmath>

#include "rondo/train.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

TrainOptions pipelined(TrainOptions options, const std::string& kind, int micro_batches) {
  options.strategy = "pipeline";
  options.pipeline.order = kind;
  options.accumulate = micro_batches;
  return options;
}

TrainOptions modelRun(const std::string& model) {
  TrainOptions options = smallRun();
  options.model = model;
  if (model == "resnet18") {
    options.data = "synthetic:shape=3x4x4,train=8,test=9";
    options.batch = 4;
    options.epochs = 1;
  }
  return options;
}

std::vector<double> losses(int ranks, const TrainOptions& options) {
  std::vector<double> all;
  trainAll(makeRanks(ranks), options,
           [&](const TrainProgress& progress) { all.push_back(progress.loss); });
  return all;
}

} // namespace

TEST_CASE("every order on 1 to 4 stages has the bits of one rank with as many micro-batches") {
  for (const char* model : {"mlp", "cnn"}) {
    TrainOptions options = modelRun(model);
    options.accumulate = 4;
    const TrainReport expected = trainAll(makeRanks(1), options);
    for (const TrainChoice& kind : trainPipelines())
      for (int stages : {1, 2, 3, 4}) {
        options = pipelined(modelRun(model), kind.name, 4);
        // The models can be cut into four parts.
        if (kind.name == "interleaved" && stages != 2) continue;
        INFO(model << ", " << kind.name << ", " << stages << " stages");
        requireSame(trainAll(makeRanks(stages), options), expected);
      }
  }
}

TEST_CASE("recomputation and transports do not change a bit") {
  TrainOptions options = modelRun("cnn");
  options.accumulate = 8;
  const TrainReport expected = trainAll(makeRanks(1), options);
  for (const char* kind : {"gpipe", "1f1b", "interleaved"})
    for (const std::string transport : {"inproc", "shm", "tcp"}) {
      options = pipelined(modelRun("cnn"), kind, 8);
      options.pipeline.recompute = transport != "tcp";
      INFO(kind << ", " << transport);
      requireSame(trainAll(makeRanks(2, transport), options), expected);
    }
}

TEST_CASE("residuals, batch norm and running statistics give the same bits in a pipeline",
          "[sums]") {
  TrainOptions options = modelRun("resnet18");
  options.accumulate = 2;
  const TrainReport expected = trainAll(makeRanks(1), options);
  options = pipelined(modelRun("resnet18"), "1f1b", 2);
  options.pipeline.recompute = true; // only the first stage recomputes, once
  requireSame(trainAll(makeRanks(2), options), expected);
}

TEST_CASE("fifty steps have the losses of one rank with the whole batch, except for rounding",
          "[sums]") {
  for (const char* model : {"mlp", "cnn"}) {
    TrainOptions options = modelRun(model);
    options.data = "synthetic:shape=1x8x8,train=2000,test=10";
    options.epochs = 1; // 50 steps
    // Small enough that rounding errors do not grow from step to step.
    options.optimizer.learning_rate = 0.005;
    const std::vector<double> whole = losses(1, options);
    REQUIRE(whole.size() == 50);
    for (int stages : {1, 2, 3, 4}) {
      const std::vector<double> parts = losses(stages, pipelined(options, "1f1b", 8));
      REQUIRE(parts.size() == 50);
      for (std::size_t step = 0; step < 50; ++step) {
        INFO(model << ", " << stages << " stages, step " << step + 1);
        REQUIRE(std::abs(parts[step] - whole[step]) <= 1e-5 * std::abs(whole[step]));
      }
    }
  }
}

TEST_CASE("every optimizer trains through a pipeline as on one rank") {
  for (const TrainChoice& optimizer : trainOptimizers()) {
    TrainOptions options = smallRun();
    options.optimizer.name = optimizer.name;
    options.optimizer.learning_rate = 0.002;
    options.optimizer.weight_decay = 0.01;
    options.augment = true;
    options.optimizer.clip = 1;
    options.accumulate = 4;
    const TrainReport expected = trainAll(makeRanks(1), options);
    INFO(optimizer.name);
    requireSame(trainAll(makeRanks(3), pipelined(options, "1f1b", 4)), expected);
  }
}

TEST_CASE("a checkpoint continues with another number of stages, and under another strategy") {
  const TemporaryFolder folder;
  TrainOptions options = modelRun("cnn");
  options.optimizer.name = "adamw";
  options.optimizer.learning_rate = 0.001;
  options.accumulate = 4;
  const TrainReport expected = trainAll(makeRanks(1), options);
  options.files.checkpoint = folder.file("run");
  const auto stopped = [&](int ranks, TrainOptions part) {
    part.steps = 2;
    trainAll(makeRanks(ranks), part);
  };
  const auto resumed = [&](int ranks, TrainOptions rest) {
    rest.files.resume = true;
    requireSame(trainAll(makeRanks(ranks), rest), expected);
  };
  const TrainOptions piped = pipelined(options, "1f1b", 4);
  stopped(3, piped);
  resumed(3, piped);
  stopped(3, piped);
  resumed(2, pipelined(options, "interleaved", 4));
  stopped(2, piped);
  resumed(1, options);
  stopped(1, options);
  resumed(4, piped);
}

TEST_CASE("the report contains the cut of the model, idle fractions and bytes sent") {
  TrainOptions options = pipelined(smallRun(), "1f1b", 4);
  const TrainReport report = trainAll(makeRanks(2), options);
  REQUIRE(report.pipeline.parts.size() == 2);
  REQUIRE(report.pipeline.parts[0].begin == 0);
  REQUIRE(report.pipeline.parts[0].end == report.pipeline.parts[1].begin);
  REQUIRE(report.pipeline.parts[1].end == 8);
  for (const auto& part : report.pipeline.parts) {
    REQUIRE(part.forward > 0);
    REQUIRE(part.backward > 0);
  }
  REQUIRE(std::abs(report.pipeline.idle_even - 1.0 / 5) < 1e-12);
  REQUIRE(report.pipeline.idle_predicted >= 1.0 / 5 - 1e-9); // uneven parts can only add to it
  REQUIRE(report.pipeline.idle_predicted < 1);
  REQUIRE(report.pipeline.idle_measured > 0);
  REQUIRE(report.pipeline.idle_measured < 1);
  // mlp is cut after 256, 128 or 64 features.
  const std::size_t cut = report.pipeline.parts[0].end;
  const double features = cut == 3 ? 256 : cut == 5 ? 128 : 64;
  REQUIRE(report.bytes_per_step == 2 * 4 * 40 * features);
  REQUIRE(trainAll(makeRanks(2), smallRun()).pipeline.parts.empty());
}

TEST_CASE("an impossible pipeline gives the same error on all ranks") {
  const auto thrown = [](int ranks, const TrainOptions& options) {
    auto comms = makeRanks(ranks);
    const Thrown all = thrownByAll(comms, [&](Communicator& comm) { train(comm, options); });
    REQUIRE(all.code == ErrorCode::invalid_argument);
    // No message was left that would disturb a later run.
    REQUIRE(firstComplaint(onRanks(comms, [](Communicator& comm) -> std::string {
              comm.barrier();
              return {};
            })) == "");
    return all.text;
  };
  const TrainOptions options = smallRun();
  CHECK(
      thrown(5, pipelined(options, "1f1b", 4)) ==
      "train: pipeline: 5 stages with 1 part each, but model mlp can be cut into 4 parts at most");
  CHECK(thrown(3, pipelined(options, "interleaved", 3)) ==
        "train: pipeline: batch is 40, must be a multiple of accumulate, 3 micro-batches of one "
        "size");
  CHECK(thrown(2, pipelined(options, "interleaved", 5)) ==
        "train: pipeline: 5 micro-batches on 2 stages with 2 laps: must be a multiple of the "
        "stages");
  CHECK(thrown(4, pipelined(options, "interleaved", 4)) ==
        "train: pipeline: 4 stages with 2 parts each, but model mlp can be cut into 4 parts at "
        "most");
  CHECK(contains(thrown(2, pipelined(options, "zigzag", 4)), "valid: naive, gpipe, 1f1b"));
  TrainOptions lapped = pipelined(options, "gpipe", 4);
  lapped.pipeline.laps = 3;
  CHECK(thrown(2, lapped) ==
        "train: pipeline: laps is 3, but order gpipe has one part of the model per rank: use "
        "interleaved");
  lapped.pipeline.laps = 1;
  CHECK_NOTHROW(requireTrainOptions(lapped, 2));
  TrainOptions clipped = pipelined(options, "1f1b", 4), plain = options;
  clipped.gradients.hook = "bf16";
  CHECK(contains(thrown(2, clipped), "strategy pipeline takes no hook"));
  plain.pipeline.recompute = true;
  CHECK(contains(thrown(2, plain), "strategy ddp takes no recompute, which is for: pipeline"));
}

TEST_CASE(
    "a loss that is not finite names its layer on all ranks, and does not change the weights") {
  for (int stages : {1, 2, 4}) {
    TrainOptions options = pipelined(smallRun(), "1f1b", 4);
    options.optimizer.learning_rate = 1e4;
    options.gradients.verify_every = 0;
    auto ranks = makeRanks(stages);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    INFO(thrown.text);
    CHECK(thrown.code == ErrorCode::aborted);
    CHECK(contains(thrown.text, "is not finite; the first values of that kind come from layer "));
  }
}

TEST_CASE("all ranks name a killed stage, and --resume ends with the same bytes") {
  const TemporaryFolder folder;
  const std::string command =
      "train -p 3 --strategy pipeline --micro-batches 4 --data "
      "synthetic:shape=1x8x8,train=2000,test=100 --batch 20 --epochs 5 --verify-every 500 ";
  REQUIRE(shell("$RONDO " + command + "--checkpoint " + folder.file("whole")).status == 0);
  const std::string file = folder.file("killed");
  const Outcome outcome = shell("$RONDO " + command + "--checkpoint " + file +
                                " --checkpoint-every 20 &\nJOB=$!\nwhile [ ! -e " + file +
                                " ]; do sleep 0.01; done\n" + killRank(2) + "wait $JOB\n");
  INFO(outcome.err);
  REQUIRE(outcome.status == 128 + 9);
  REQUIRE(contains(outcome.err, "rank 2 (pid "));
  for (const char* survivor : {"rank 0", "rank 1"})
    REQUIRE(contains(outcome.err, std::string(survivor) + ": peer_dead: rank 2 died"));
  const Outcome rest = shell("$RONDO " + command + "--resume --checkpoint " + file);
  INFO(rest.err);
  REQUIRE(rest.status == 0);
  REQUIRE((readFile(file) == readFile(folder.file("whole"))));
}

TEST_CASE("all ranks of a mesh give a killed rank the same name") {
  // One neighbour knows it as rank 1 of a pipeline, another as rank 1 of the ranks of a stage.
  const TemporaryFolder folder;
  const std::string file = folder.file("file");
  for (const char* mesh : {"data=2,pipe=2", "pipe=2,tensor=2", "shard=2,pipe=2"}) {
    const Outcome outcome =
        shell("rm -f " + file +
              "\n$RONDO train -p 4 --strategy pipeline --micro-batches 4 --data "
              "synthetic:shape=1x8x8,train=2000,test=100 --epochs 100 --mesh " +
              mesh + " --checkpoint " + file + " --checkpoint-every 2 &\nJOB=$!\nwhile [ ! -e " +
              file + " ]; do sleep 0.01; done\n" + killRank(3) + "wait $JOB\n");
    INFO(mesh << "\n" << outcome.err);
    REQUIRE(outcome.status == 128 + 9);
    for (const char* survivor : {"rank 0", "rank 1", "rank 2"})
      REQUIRE(contains(outcome.err, std::string(survivor) + ": peer_dead: rank 3 died"));
  }
}

TEST_CASE("--show-schedule prints the cut and the timetable without training") {
  const Outcome outcome = shell(
      "$RONDO train --show-schedule --strategy pipeline --pipeline gpipe -p 2 --micro-batches 2 "
      "--batch 40 "
      "--data synthetic:shape=1x8x8,train=130,test=30");
  INFO(outcome.err << outcome.out);
  REQUIRE(outcome.status == 0);
  REQUIRE(contains(outcome.out, "gpipe, 2 stages, 2 micro-batches of 20 samples: idle 33.3%"));
  REQUIRE(contains(outcome.out, "part 1 on stage 1: layers "));
  REQUIRE(contains(outcome.out,
                   "stage 0 | F0 F1 .  .  .  B0--- B1---\n"
                   "stage 1 | .  F0 F1 B0--- B1--- .  .\n"));
}

#endif

} // namespace rondo::test
