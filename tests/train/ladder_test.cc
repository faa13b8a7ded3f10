// The correctness ladder of data-parallel training: what may not change a bit, and what only
// rounding may change.
#include <cmath>

#include "rondo/train.h"
#include "runs.h"
#include "support/data_files.h"
#include "support/test.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

struct Bucketing {
  std::vector<std::size_t> bytes;
  bool overlap;
};
const std::vector<Bucketing> kBucketings = {{{0}, true},
                                            {{0}, false},
                                            {{1000}, true},
                                            {{std::size_t{1} << 10, std::size_t{1} << 16}, true},
                                            {{std::size_t{1} << 30}, true},
                                            {{std::size_t{1} << 30}, false}};

} // namespace

TEST_CASE("neither bucket sizes nor overlap nor transport change a bit, for 1 to 4 ranks") {
  for (int split : {1, 2, 3, 4}) {
    TrainOptions options = smallRun();
    options.accumulate = split;
    const TrainReport expected = trainAll(makeRanks(1), options);
    options.accumulate = 1;
    for (const Bucketing& bucketing : kBucketings)
      for (const std::string transport : {"inproc", "shm", "tcp"}) {
        options.bucket_bytes = bucketing.bytes;
        options.overlap = bucketing.overlap;
        INFO(split << " ranks on " << transport << ", first cap " << bucketing.bytes[0]
                   << ", overlap " << bucketing.overlap);
        requireSame(trainAll(makeRanks(split, transport), options), expected);
      }
  }
}

TEST_CASE("all that the optimizers and hooks do leaves the ranks alike after every step") {
  for (const TrainChoice& optimizer : trainOptimizers())
    for (const char* hook : {"none", "fp16", "bf16", "topk:0.1", "powersgd:2"})
      for (int size : {2, 3}) {
        TrainOptions options = smallRun();
        options.optimizer = optimizer.name;
        options.learning_rate = 0.002;
        options.weight_decay = 0.01;
        options.clip = 1;
        options.schedule = "cosine";
        options.warm_up = 2;
        options.augment = true;
        options.hook = hook;
        options.verify_every = 1; // throws where they are not
        INFO(optimizer.name << ", " << hook << ", " << size << " ranks");
        const TrainReport first = trainAll(makeRanks(size, "inproc", false), options);
        requireSame(trainAll(makeRanks(size, "inproc", false), options), first);
      }
}

TEST_CASE("N ranks train as one rank with the whole batch does, but for rounding") {
  for (int size : {2, 3, 4}) {
    std::vector<double> whole, parts;
    TrainOptions options = smallRun();
    options.steps = 10;
    const auto into = [](std::vector<double>& losses) {
      return [&losses](const TrainProgress& progress) { losses.push_back(progress.loss); };
    };
    trainAll(makeRanks(1), options, into(whole));
    trainAll(makeRanks(size), options, into(parts));
    REQUIRE(whole.size() == 10);
    REQUIRE(parts.size() == 10);
    for (std::size_t step = 0; step < 10; ++step) {
      INFO(size << " ranks, step " << step);
      REQUIRE(std::abs(whole[step] - parts[step]) <= 5e-5 + 1.3e-6 * std::abs(whole[step]));
    }
  }
}

TEST_CASE("models with filters and batch norm: ranks as micro-batches, and resumed, bit for bit") {
  TemporaryFolder folder;
  for (const char* model : {"cnn", "resnet18"}) {
    TrainOptions options = smallRun();
    options.model = model;
    options.data = "synthetic:shape=3x8x8,train=16,test=9";
    options.batch = 5; // shares of 2 and 3
    options.learning_rate = 0.001;
    options.accumulate = 2;
    options.epochs = 1;
    options.checkpoint = folder.file("file");
    const TrainReport expected = trainAll(makeRanks(1), options);
    const Bytes bytes = readRaw(options.checkpoint);
    options.accumulate = 1;
    INFO(model);
    requireSame(trainAll(makeRanks(2), options), expected);
    REQUIRE((readRaw(options.checkpoint) == bytes));
    options.steps = 1;
    trainAll(makeRanks(2), options);
    options.steps = 3;
    options.resume = true;
    options.overlap = false;
    options.bucket_bytes = {100'000};
    trainAll(makeRanks(2, "shm"), options);
    REQUIRE((readRaw(options.checkpoint) == bytes));
  }
}

TEST_CASE("a step's batch counts once, however unequal the ranks' shares") {
  // 41 samples on 3 ranks are 13, 14 and 14: a mean of means would differ in the third digit.
  TrainOptions options = smallRun();
  options.batch = 41;
  options.steps = 3;
  std::vector<double> whole, parts;
  trainAll(makeRanks(1), options, [&](const TrainProgress& p) { whole.push_back(p.loss); });
  trainAll(makeRanks(3), options, [&](const TrainProgress& p) { parts.push_back(p.loss); });
  for (std::size_t step = 0; step < 3; ++step) REQUIRE(std::abs(whole[step] - parts[step]) <= 5e-5);
}

#endif

} // namespace rondo::test
