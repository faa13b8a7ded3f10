// Tests whole runs with the sharded strategies: they train like data-parallel runs.
#include "rondo/train.h"

#include <cmath>
#include <limits>

#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

const std::vector<std::string> kSharded = {"zero1", "zero2", "fsdp"};

/// Small buckets and units, so that there are several.
TrainOptions shardedRun(const std::string& strategy) {
  TrainOptions options = smallRun();
  options.strategy = strategy;
  if (strategy == "fsdp") options.sharding.unit_bytes = 10'000;
  else options.gradients.bucket_bytes = {10'000};
  return options;
}

std::vector<double> lossesOf(std::vector<Communicator> ranks, const TrainOptions& options) {
  std::vector<double> losses;
  trainAll(std::move(ranks), options,
           [&](const TrainProgress& progress) { losses.push_back(progress.loss); });
  return losses;
}

void requireClose(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t step = 0; step < a.size(); ++step) {
    INFO("step " << step + 1);
    REQUIRE(std::abs(a[step] - b[step]) <= 1e-5 * std::abs(a[step]));
  }
}

std::string refusal(int ranks, const std::function<void(TrainOptions&)>& change) {
  TrainOptions options = smallRun();
  change(options);
  auto comms = makeRanks(ranks);
  const Thrown thrown = thrownByAll(comms, [&](Communicator& comm) { train(comm, options); });
  REQUIRE(thrown.code == ErrorCode::invalid_argument);
  return thrown.text;
}

} // namespace

TEST_CASE("sharded ranks train bit for bit like one rank, and write the same file") {
  TemporaryFolder folder;
  for (int ranks : kWholeGrid ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{3})
    for (const std::string optimizer : {"sgd", "adamw"}) {
      TrainOptions whole = smallRun();
      whole.optimizer.name = optimizer;
      whole.optimizer.learning_rate = 0.005;
      whole.optimizer.weight_decay = 0.01;
      whole.accumulate = ranks;
      whole.files.checkpoint = folder.file("whole");
      const TrainReport expected = trainAll(makeRanks(1), whole);
      for (const std::string& strategy : kSharded) {
        INFO(strategy << ", " << ranks << " ranks, " << optimizer);
        TrainOptions options = shardedRun(strategy);
        options.optimizer.name = optimizer;
        options.optimizer.learning_rate = 0.005;
        options.optimizer.weight_decay = 0.01;
        options.files.checkpoint = folder.file("sharded");
        const TrainReport report = trainAll(makeRanks(ranks), options);
        requireSame(report, expected);
        REQUIRE(report.test_accuracy == expected.test_accuracy);
        REQUIRE((readRaw(folder.file("sharded")) == readRaw(folder.file("whole"))));
      }
    }
}

TEST_CASE("gathered filters give the same bits on every transport") {
  TrainOptions whole = smallRun();
  whole.model = "cnn";
  whole.steps = 2;
  whole.accumulate = 2;
  const TrainReport expected = trainAll(makeRanks(1), whole);
  for (const std::string& strategy : kSharded)
    for (const char* transport : {"inproc", "shm", "tcp"}) {
      INFO(strategy << " over " << transport);
      TrainOptions options = shardedRun(strategy);
      options.model = "cnn";
      options.steps = 2;
      requireSame(trainAll(makeRanks(2, transport), options), expected);
    }
}

TEST_CASE("running statistics of sharded runs equal those of ddp") {
  if (!kWholeGrid) return; // eleven million weights
  TrainOptions options = smallRun();
  options.model = "resnet18";
  options.data = "synthetic:shape=1x8x8,train=8,test=8";
  options.batch = 8;
  options.steps = 1;
  const TrainReport expected = trainAll(makeRanks(2), options);
  for (const char* strategy : {"zero2", "fsdp"}) {
    INFO(strategy);
    options.strategy = strategy;
    const TrainReport report = trainAll(makeRanks(2), options);
    // The hash contains running statistics.
    REQUIRE(report.parameter_hash == expected.parameter_hash);
    REQUIRE(report.test_accuracy == expected.test_accuracy);
  }
}

TEST_CASE("fifty steps of sharded ranks have the losses of one rank with the whole batch") {
  TrainOptions whole = smallRun();
  whole.data = "synthetic:shape=1x8x8,train=1000,test=10";
  whole.steps = 50;
  whole.optimizer.clip = 0.5;
  whole.optimizer.schedule = "cosine";
  whole.optimizer.warm_up = 5;
  whole.augment = true;
  const std::vector<double> expected = lossesOf(makeRanks(1, "inproc", false), whole);
  for (const std::string& strategy : kSharded) {
    INFO(strategy);
    TrainOptions options = whole;
    options.strategy = strategy;
    requireClose(expected, lossesOf(makeRanks(3, "inproc", false), options));
  }
}

TEST_CASE("a 2 x 2 mesh of data and shard has the losses of one rank, for both orders of axes") {
  TrainOptions whole = smallRun();
  whole.accumulate = 4;
  const std::vector<double> expected = lossesOf(makeRanks(1), whole);
  for (const std::string& strategy : kSharded)
    for (const char* mesh : {"data=2,shard=2", "shard=2,data=2", "data=4", "shard=4,data=1"}) {
      INFO(strategy << ", mesh " << mesh);
      TrainOptions options = shardedRun(strategy);
      options.sharding.mesh = mesh;
      requireClose(expected, lossesOf(makeRanks(4), options));
    }
}

TEST_CASE("a run that four ranks saved continues under every strategy and number of ranks") {
  TemporaryFolder folder;
  const std::string file = folder.file("file");
  // Every strategy continues from a file that another strategy wrote in the same way as ddp.
  const auto saved = [&](const std::string& strategy, const std::string& mesh) {
    TrainOptions options = shardedRun(strategy);
    options.optimizer.name = "adamw";
    options.optimizer.learning_rate = 0.002;
    options.sharding.mesh = mesh;
    options.files.checkpoint = file;
    options.steps = 2;
    trainAll(makeRanks(4), options);
    return readRaw(file);
  };
  const auto goesOn = [&](const std::string& strategy, int ranks, const auto& bytes) {
    writeRaw(file, bytes);
    TrainOptions options = shardedRun(strategy);
    options.optimizer.name = "adamw";
    options.optimizer.learning_rate = 0.002;
    options.files.checkpoint = file;
    options.files.resume = true;
    return trainAll(makeRanks(ranks), options);
  };
  const auto bytes = saved("ddp", "");
  for (const std::string& strategy : kSharded) REQUIRE((saved(strategy, "") == bytes));
  for (int ranks : kWholeGrid ? std::vector<int>{2, 3} : std::vector<int>{3}) {
    const TrainReport expected = goesOn("ddp", ranks, bytes);
    for (const std::string& strategy : kSharded) {
      INFO(strategy << " on " << ranks << " ranks");
      requireSame(goesOn(strategy, ranks, bytes), expected);
    }
  }
  // The sums were added in another order, but the file is whole.
  const auto hybrid = saved("fsdp", "data=2,shard=2");
  requireSame(goesOn("zero2", 3, hybrid), goesOn("ddp", 3, hybrid));
}

TEST_CASE("a hybrid run that was saved and resumed ends like one without interruption") {
  TemporaryFolder folder;
  for (const std::string& strategy : kSharded) {
    INFO(strategy);
    TrainOptions options = shardedRun(strategy);
    options.sharding.mesh = "data=2,shard=2";
    const TrainReport whole = trainAll(makeRanks(4), options);
    options.files.checkpoint = folder.file(strategy);
    options.steps = 2;
    trainAll(makeRanks(4), options);
    options.steps = 0;
    options.files.resume = true;
    requireSame(trainAll(makeRanks(4), options), whole);
  }
}

TEST_CASE("a model that does not fit in the limit of one rank trains on four") {
  TrainOptions options = smallRun();
  const std::uint64_t needs = trainAll(makeRanks(1), options).held_bytes;
  // Parameters and gradients contain the padding of the last biases.
  constexpr std::uint64_t kElements =
      64 * 256 + 256 + 256 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10;
  REQUIRE(needs == 4 * (3 * kElements + 2 * 6));
  options.sharding.memory_limit = needs;
  trainAll(makeRanks(1), options);
  const std::uint64_t limit = needs * 95 / 100;
  const auto refused = [&](const std::string& strategy, int ranks) {
    return refusal(ranks, [&](TrainOptions& own) {
      own = shardedRun(strategy);
      own.sharding.memory_limit = limit;
    });
  };
  const std::string text = "train: memory_limit is " + std::to_string(limit) + " bytes, but ";
  for (int ranks : {1, 4}) {
    REQUIRE(contains(refused("ddp", ranks), text + "strategy ddp needs " + std::to_string(needs)));
  }
  REQUIRE(contains(refused("fsdp", 1), text + "strategy fsdp needs "));
  options = shardedRun("fsdp");
  options.sharding.memory_limit = limit;
  const TrainReport report = trainAll(makeRanks(4), options);
  REQUIRE(report.held_bytes > 0);
  REQUIRE(report.held_bytes <= limit);
}

TEST_CASE("each sharded strategy holds less memory than ddp") {
  const std::uint64_t whole = trainAll(makeRanks(4), smallRun()).held_bytes;
  for (const std::string& strategy : kSharded) {
    const std::uint64_t held = trainAll(makeRanks(4), shardedRun(strategy)).held_bytes;
    INFO(strategy << " holds " << held << " bytes, ddp " << whole);
    REQUIRE(held > 0);
    REQUIRE(held < whole);
  }
}

TEST_CASE("sharded strategies refuse meshes and options that they do not support") {
  for (const std::string& strategy : kSharded) {
    const auto with = [&](const std::function<void(TrainOptions&)>& change) {
      return refusal(4, [&](TrainOptions& options) {
        options.strategy = strategy;
        change(options);
      });
    };
    CHECK(contains(with([](auto& options) { options.sharding.mesh = "data=2,pipe=2"; }),
                   "takes the axes data and shard, not pipe"));
    CHECK(contains(with([](auto& options) { options.sharding.mesh = "shard=3"; }),
                   "its axes need 3 ranks in all, but this run has 4"));
    CHECK(contains(with([](auto& options) { options.gradients.hook = "fp16"; }),
                   strategy == "fsdp" ? "takes none and bf16" : "takes no hook"));
    CHECK(contains(with([](auto& options) { options.accumulate = 11; }),
                   "must be at least ranks x accumulate, 44"));
  }
  CHECK(contains(refusal(2, [](auto& options) { options.sharding.unit_bytes = 5; }),
                 "strategy ddp takes no unit_bytes"));
  CHECK(contains(refusal(2, [](auto& options) { options.sharding.mesh = "data=2"; }),
                 "strategy ddp takes no mesh"));
}

TEST_CASE("a rank that fails alone within a sharded run leaves no rank waiting") {
  for (const std::string& strategy : kSharded)
    for (const char* mesh : {"", "data=2,shard=2"}) {
      auto ranks = makeRanks(4);
      std::vector<std::string> ends(ranks.size());
      REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                TrainOptions options = shardedRun(strategy);
                options.sharding.mesh = mesh;
                int asked = 0;
                if (comm.rank() == 2)
                  options.stop = [&]() -> bool {
                    if (++asked == 3) throw std::runtime_error("this rank has had enough");
                    return false;
                  };
                try {
                  Communicator own = std::move(comm);
                  train(own, options);
                } catch (const std::exception& error) {
                  ends[static_cast<std::size_t>(&comm - ranks.data())] = error.what();
                }
                return {};
              })) == "");
      for (const std::string& end : ends) REQUIRE(!end.empty());
    }
}

TEST_CASE("values that are not finite end a sharded run on all ranks, with the name of the layer") {
  for (const std::string& strategy : kSharded) {
    const auto ends = [&](double rate, std::int64_t steps = 0) {
      TrainOptions options = shardedRun(strategy);
      options.optimizer.learning_rate = rate;
      if (steps > 0) options.steps = steps;
      auto ranks = makeRanks(2);
      const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
      REQUIRE(thrown.code == ErrorCode::aborted);
      return thrown.text;
    };
    CHECK(contains(ends(1e4), " is not finite; the first values of that kind come from layer "));
    // Values that are not finite are found although no next step computes a loss.
    CHECK(contains(ends(std::numeric_limits<double>::max(), 1), ".weight are not finite"));
  }
}

#endif

} // namespace rondo::test
