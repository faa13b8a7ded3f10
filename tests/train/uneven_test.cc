// Tests epochs whose last step is smaller than the others, and may leave ranks without samples.
#include <algorithm>
#include <cmath>
#include <map>

#include "rondo/train.h"
#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/loop/checkpoint.h"
#include "train/loop/settings.h"
#include "train/parallel/samples.h"

namespace rondo::test {

namespace {

/// Two epochs with steps of 40, 40 and `rest` samples.
TrainOptions unevenRun(int rest) {
  TrainOptions options = smallRun();
  options.data = "synthetic:shape=1x8x8,train=" + std::to_string(80 + rest) + ",test=20";
  options.remainder = "uneven";
  return options;
}

} // namespace

TEST_CASE("the parts of an epoch's steps contain each sample once, for every remainder") {
  for (int parts : kRankCounts)
    for (int rest : {1, 3, 8, 39, 40}) {
      const TrainOptions options = unevenRun(rest);
      const training::Data data = training::load(options);
      training::Samples samples(options, data, static_cast<std::size_t>(parts));
      std::map<std::uint32_t, int> seen;
      for (int step = 0; step < training::epochSteps(options, data); ++step) {
        std::size_t smallest = 40, largest = 0, all = 0;
        for (int part = 0; part < parts; ++part) {
          const training::Batch batch = samples.load(2, step, static_cast<std::size_t>(part));
          for (std::size_t i = 0; i < batch.count; ++i) ++seen[batch.samples[i]];
          smallest = std::min(smallest, batch.count);
          largest = std::max(largest, batch.count);
          all += batch.count;
        }
        REQUIRE(largest - smallest <= 1);
        REQUIRE(all == samples.count(2, step));
      }
      INFO(parts << " parts, " << rest << " left");
      REQUIRE(seen.size() == data.train.size());
      REQUIRE(
          std::all_of(seen.begin(), seen.end(), [](const auto& one) { return one.second == 1; }));
    }
}

TEST_CASE("a batch made ahead is the same as one made by load()") {
  TrainOptions options = unevenRun(7);
  options.augment = true;
  const training::Data data = training::load(options);
  training::Samples plain(options, data, 2), ahead(options, data, 2);
  const auto same = [&](int epoch, int step, std::size_t part) {
    const training::Batch a = plain.load(epoch, step, part), b = ahead.load(epoch, step, part);
    REQUIRE(std::equal(a.samples, a.samples + a.count, b.samples, b.samples + b.count));
    REQUIRE(std::equal(a.labels, a.labels + a.count, b.labels));
    REQUIRE(std::equal(a.inputs, a.inputs + a.count * data.train.shape.size(), b.inputs));
  };
  ahead.prepare(1, 2, 1);
  same(1, 2, 1);
  same(1, 2, 1); // the prepared batch was discarded
  for (const auto& [epoch, step, part] : {std::tuple{2, 1, 1}, {1, 2, 1}, {1, 1, 0}}) {
    ahead.prepare(1, 1, 1);
    same(epoch, step, static_cast<std::size_t>(part));
  }
  ahead.prepare(1, 1, 1);
  ahead.loadLabels(1, 0, 0);
  same(1, 1, 1);
}

TEST_CASE("options that exclude an uneven last step are refused by name") {
  TrainOptions options = unevenRun(1);
  const auto refused = [&](int size) {
    auto ranks = makeRanks(size);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    REQUIRE(thrown.code == ErrorCode::invalid_argument);
    return thrown.text;
  };
  options.strategy = "local";
  REQUIRE(refused(2) == "train: strategy local takes no uneven remainder, which is for: ddp");
  options.strategy = "ddp";
  options.remainder = "some";
  REQUIRE(refused(2) == "train: unknown remainder \"some\"; valid: drop, pad, uneven");
}

#ifdef RONDO_HAVE_DNNL

TEST_CASE("ranks without samples in the last step give the bits of micro-batches on one rank") {
  for (int size : kRankCounts)
    for (int rest : {1, 3, 5}) {
      TrainOptions options = unevenRun(rest);
      options.accumulate = size;
      const TrainReport expected = trainAll(makeRanks(1), options);
      REQUIRE(expected.steps == 6);
      options.accumulate = 1;
      INFO(size << " ranks, " << rest << " left");
      for (const bool overlap : {true, false}) {
        options.gradients.overlap = overlap;
        options.gradients.bucket_bytes = {overlap ? std::size_t{0} : std::size_t{1} << 20};
        requireSame(trainAll(makeRanks(size, overlap ? "inproc" : "shm"), options), expected);
      }
    }
}

TEST_CASE("a smaller step's gradient and loss are means over its samples, however many ranks") {
  TrainOptions options = unevenRun(3);
  const auto losses = [&](int size) {
    std::vector<double> all;
    trainAll(makeRanks(size), options, [&](const TrainProgress& p) { all.push_back(p.loss); });
    return all;
  };
  const std::vector<double> whole = losses(1);
  REQUIRE(whole.size() == 6);
  for (int size : kRankCounts) {
    const std::vector<double> parts = losses(size);
    REQUIRE(parts.size() == 6);
    for (std::size_t step = 0; step < 6; ++step) {
      INFO(size << " ranks, step " << step);
      REQUIRE(std::abs(whole[step] - parts[step]) <= 5e-5 + 1.3e-6 * std::abs(whole[step]));
    }
  }
  // Three samples alone are a batch of three: one step over them is the same step.
  options.data = "synthetic:shape=1x8x8,train=3,test=20";
  options.steps = 1;
  const TrainReport few = trainAll(makeRanks(2), options);
  options.remainder = "drop";
  options.batch = 3;
  requireSame(trainAll(makeRanks(2), options), few);
}

TEST_CASE("an epoch's loss is the mean over its samples, also of a smaller last step") {
  TrainOptions options = unevenRun(3);
  options.optimizer.learning_rate = 0; // so that a sample's loss does not depend on its step
  const double uneven = trainAll(makeRanks(2), options).epoch_loss.at(0);
  options.remainder = "drop";
  options.batch = 83;
  REQUIRE(std::abs(trainAll(makeRanks(2), options).epoch_loss.at(0) - uneven) < 1e-5);
}

TEST_CASE("running statistics move by the micro-batches that had samples") {
  TrainOptions options = smallRun();
  options.model = "resnet18";
  options.data = "synthetic:shape=3x8x8,train=5,test=4";
  options.batch = 4;
  options.epochs = 1;
  options.optimizer.learning_rate = 0.001;
  options.remainder = "uneven";
  options.accumulate = 2;
  const TrainReport expected = trainAll(makeRanks(1), options);
  REQUIRE(expected.steps == 2);
  options.accumulate = 1;
  requireSame(trainAll(makeRanks(2), options), expected);

  // One sample on two ranks gives the result of one rank, whatever the steps before have left in
  // memory.
  options.data = "synthetic:shape=3x8x8,train=1,test=4";
  options.epochs = 2;
  requireSame(trainAll(makeRanks(2), options), trainAll(makeRanks(1), options));

  options.data = "synthetic:shape=3x8x8,train=5,test=4";
  options.sync_batch_norm = true;
  auto ranks = makeRanks(2);
  REQUIRE(thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); }).text ==
          "train: sync_batch_norm with remainder uneven: the last step of an epoch has 1 sample, "
          "but 2 micro-batches; each needs at least one sample");
  options.elastic.ranks = "1:2"; // a rank that joined later would end the run
  auto alone = makeRanks(1);
  REQUIRE(thrownByAll(alone, [&](Communicator& comm) { train(comm, options); }).text ==
          "train: sync_batch_norm with remainder uneven: the last step of an epoch has 1 sample, "
          "but 2 micro-batches (with MAX ranks of elastic); each needs at least one sample");
}

// Proves: the first layer's mean, which is linear in the samples, is that of the whole batch, with
// parts of 3 and 2, and of 2, 2 and 1 samples.
TEST_CASE("parts of a batch count in running statistics by their numbers of samples", "[sums]") {
  const TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.model = "resnet18";
  options.data = "synthetic:shape=3x8x8,train=5,test=4";
  options.batch = 5;
  options.steps = 1;
  options.files.checkpoint = folder.file("file");
  const auto meanOf = [&](int ranks, const std::string& strategy) {
    options.strategy = strategy;
    trainAll(makeRanks(ranks), options);
    std::vector<float> mean(64);
    training::Checkpoint(options.files.checkpoint)
        .restore(std::vector<training::TensorMemory>{{{"state.1.running_mean", {mean.size()}},
                                                      mean.data()}},
                 false);
    return mean;
  };
  const std::vector<float> whole = meanOf(1, "ddp");
  for (const char* strategy : {"ddp", "zero1", "ps", "dp"})
    for (const int ranks : {2, 3}) {
      INFO(strategy << ", " << ranks << " ranks");
      const std::vector<float> parts = meanOf(ranks, strategy);
      for (std::size_t i = 0; i < whole.size(); ++i) REQUIRE(std::abs(parts[i] - whole[i]) < 1e-6F);
    }
}

TEST_CASE("hooks, clipping and the noise scale work in a step without samples on some ranks") {
  for (const std::string hook : {"none", "bf16", "topk:0.1", "powersgd:2"}) {
    TrainOptions options = unevenRun(2);
    options.gradients.hook = hook;
    options.optimizer.clip = 1;
    options.gradients.noise_scale = hook == "none" || hook == "bf16";
    options.gradients.verify_every = 1; // throws if ranks differ
    INFO(hook);
    const TrainReport report = trainAll(makeRanks(4, "inproc", false), options);
    REQUIRE(report.steps == 6);
    REQUIRE(report.epoch_noise_scale.size() == (options.gradients.noise_scale ? 2 : 0));
  }
}

TEST_CASE("residuals of hooks do not count more in a smaller step") {
  for (const char* hook : {"topk:0.1", "powersgd:1"}) {
    TrainOptions options = smallRun();
    options.data = "synthetic:shape=1x8x8,train=121,test=60"; // steps of 40, 40, 40 and 1
    options.remainder = "uneven";
    options.gradients.hook = hook;
    options.epochs = 6;
    const TrainReport report = trainAll(makeRanks(2), options);
    INFO(hook << ": " << report.epoch_loss.front() << " to " << report.epoch_loss.back());
    REQUIRE(report.epoch_loss.back() < report.epoch_loss.front());
  }
}

TEST_CASE("a run that is resumed before, in or after a smaller step ends with the same bytes") {
  TemporaryFolder folder;
  TrainOptions options = unevenRun(1);
  options.files.checkpoint = folder.file("file");
  const TrainReport expected = trainAll(makeRanks(3), options);
  const Bytes bytes = readRaw(options.files.checkpoint);
  for (int stop : {2, 3, 4}) {
    options.files.resume = false;
    options.steps = stop;
    trainAll(makeRanks(3), options);
    options.files.resume = true;
    options.steps = 0;
    INFO("resumed after step " << stop);
    requireSame(trainAll(makeRanks(3), options), expected);
    REQUIRE((readRaw(options.files.checkpoint) == bytes));
  }
  options.remainder = "drop"; // other steps, so it is another run
  auto ranks = makeRanks(3);
  REQUIRE(contains(thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); }).text,
                   "it has remainder uneven, this run has the default remainder"));
  options.files.resume = false;
  trainAll(makeRanks(3), options);
  options.remainder = "pad";
  options.files.resume = true;
  REQUIRE(contains(thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); }).text,
                   "it has the default remainder, this run has remainder pad"));
}

TEST_CASE("pad fills the last step for every strategy whose ranks are all in the same step") {
  for (const char* strategy : {"ddp", "dp", "zero1", "fsdp"}) {
    TrainOptions options = unevenRun(3);
    options.strategy = strategy;
    options.remainder = "pad";
    INFO(strategy);
    REQUIRE(trainAll(makeRanks(2), options).steps == 6);
  }
}

#endif

} // namespace rondo::test
