// Compares local SGD and DataParallel with one rank that has the same batches.
#include <algorithm>
#include <cmath>

#include "rondo/train.h"
#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

std::vector<double> losses(int size, const TrainOptions& options) {
  std::vector<double> all;
  trainAll(makeRanks(size), options,
           [&all](const TrainProgress& progress) { all.push_back(progress.loss); });
  return all;
}

/// The largest relative difference between the steps of two runs.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return worst;
}

TrainOptions localRun(int period, double slow_momentum = 0) {
  TrainOptions options = smallRun();
  options.strategy = "local";
  options.averaging.period = period;
  options.averaging.slow_momentum = slow_momentum;
  return options;
}

TrainOptions ofOneRank(TrainOptions options) {
  const TrainOptions defaults;
  options.strategy = "ddp";
  options.averaging.period = defaults.averaging.period;
  options.averaging.slow_momentum = defaults.averaging.slow_momentum;
  return options;
}

} // namespace

TEST_CASE("local SGD that averages after every step equals SGD for 50 steps", "[sums]") {
  for (int size : kWholeGrid ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{3}) {
    TrainOptions options = localRun(1);
    options.steps = 50;
    options.optimizer.learning_rate =
        0.001; // after convergence the losses would be only rounding errors
    options.optimizer.weight_decay = 0.01;
    INFO(size << " ranks");
    const auto expected = losses(1, ofOneRank(options));
    REQUIRE(expected.size() == 50);
    REQUIRE(difference(losses(size, options), expected) < 1e-5);
    options.averaging.period = 2;
    if (size > 1) REQUIRE(difference(losses(size, options), expected) > 1e-3);
  }
}

TEST_CASE("slow momentum with period 1 and plain steps equals momentum", "[sums]") {
  TrainOptions options = localRun(1, 0.9);
  options.steps = 50;
  options.optimizer.learning_rate = 0.001;
  options.optimizer.momentum = 0;
  TrainOptions plain = ofOneRank(options);
  plain.optimizer.momentum = 0.9;
  // Moves are differences of values here, which have larger rounding errors than gradients.
  const auto expected = losses(1, plain);
  REQUIRE(difference(losses(3, options), expected) < 1e-4);
  options.averaging.slow_momentum = 0;
  REQUIRE(difference(losses(3, options), expected) > 1e-2);
}

TEST_CASE("between averages ranks differ, and evaluation uses their average", "[sums]") {
  for (int size : kWholeGrid ? std::vector<int>{2, 3} : std::vector<int>{3})
    for (double slow : {0.0, 0.5}) {
      TrainOptions options = localRun(4, slow);
      options.data = "synthetic:shape=1x8x8,train=1000,test=200"; // 25 steps per epoch
      options.batch = 40;
      options.epochs = 3;
      options.optimizer.momentum = slow > 0 ? 0.5 : 0.9;
      options.gradients.verify_every = 3; // throws if the ranks' averages differ
      const TrainReport report = trainAll(makeRanks(size), options);
      INFO(size << " ranks, slow momentum " << slow);
      REQUIRE(report.epoch_loss.size() == 3);
      REQUIRE(report.epoch_loss.back() < report.epoch_loss.front() / 2);
      REQUIRE(report.test_accuracy > 0.9);
      options.gradients.verify_every =
          0; // the result does not depend on when the average is computed
      requireSame(trainAll(makeRanks(size), options), report);
    }
}

TEST_CASE("local SGD that was stopped at any step and resumed ends with the same bytes", "[sums]") {
  TemporaryFolder folder;
  for (const char* optimizer : {"sgd", "adamw"})
    for (int steps = 1; steps < 6; steps += kWholeGrid ? 1 : 3) {
      TrainOptions options = localRun(3, 0.5);
      options.optimizer.name = optimizer;
      options.optimizer.learning_rate = 0.002;
      options.files.checkpoint = folder.file("whole");
      const TrainReport whole = trainAll(makeRanks(2), options);
      options.files.checkpoint = folder.file("part");
      TrainOptions first = options;
      first.steps = steps;
      trainAll(makeRanks(2), first);
      options.files.resume = true;
      INFO(optimizer << ", stopped after step " << steps);
      requireSame(trainAll(makeRanks(2), options), whole);
      REQUIRE((readRaw(folder.file("part")) == readRaw(folder.file("whole"))));
    }
}

namespace {

/// Trains up to this step by one strategy, local SGD with period 1 or another one, then up to step
/// 20 by another. Returns the losses of the later steps.
std::vector<double> continuedBy(const std::string& first, int ranks, int steps,
                                const std::string& then, int then_ranks,
                                const TemporaryFolder& folder) {
  TrainOptions options = localRun(1);
  options.optimizer.learning_rate = 0.001;
  options.files.checkpoint = folder.file("file");
  const auto with = [&](const std::string& strategy) {
    TrainOptions own = strategy == "local" ? options : ofOneRank(options);
    own.strategy = strategy;
    return own;
  };
  options.steps = steps;
  losses(ranks, with(first));
  options.steps = 20;
  options.files.resume = true;
  return losses(then_ranks, with(then));
}

} // namespace

// Proves: models and optimizer states are averaged and given to all ranks, since local SGD with
// period 1 makes the steps of ddp.
TEST_CASE("a checkpoint of local SGD continues on other ranks and strategies, and theirs as it",
          "[sums]") {
  const TemporaryFolder folder;
  const std::vector<double> whole = continuedBy("ddp", 1, 1, "ddp", 1, folder);
  struct Case {
    const char* first;
    int ranks;
    const char* then;
    int then_ranks;
  };
  for (const auto& [first, ranks, then, then_ranks] : std::vector<Case>{{"local", 2, "local", 3},
                                                                        {"local", 3, "local", 1},
                                                                        {"local", 3, "ddp", 3},
                                                                        {"local", 2, "zero1", 3},
                                                                        {"ddp", 2, "local", 2},
                                                                        {"zero2", 3, "local", 2}}) {
    INFO(ranks << " ranks of " << first << ", then " << then_ranks << " of " << then);
    const std::vector<double> rest = continuedBy(first, ranks, 7, then, then_ranks, folder);
    REQUIRE(rest.size() == 13);
    // Sums of other parts round differently: 1.2e-5 with AVX-512.
    REQUIRE(difference(rest, {whole.end() - 13, whole.end()}) < 1e-4);
  }
}

// Proves: between two averages, too, the file has the mean of the models; and it is averaged again
// where another period would have averaged it already.
TEST_CASE("the model of a checkpoint is the one that local SGD has evaluated") {
  const TemporaryFolder folder;
  TrainOptions options = localRun(3, 0.5);
  options.files.checkpoint = folder.file("file");
  for (const int steps : {3, 4}) {
    options.files.resume = false;
    options.steps = steps;
    const TrainReport ended = trainAll(makeRanks(3), options);
    options.files.resume = true;
    TrainOptions other_period = options;
    other_period.averaging.period = 2;
    for (const auto& [ranks, then] : {std::pair{3, other_period}, {2, ofOneRank(options)}}) {
      const TrainReport again = trainAll(makeRanks(ranks), then);
      REQUIRE(again.parameter_hash == ended.parameter_hash);
      REQUIRE(again.test_accuracy == ended.test_accuracy);
    }
  }
}

// Proves: as with another number of ranks, the run goes on from the means.
TEST_CASE("a run of local SGD is resumed with slow momentum switched on or off") {
  const TemporaryFolder folder;
  for (const double before : {0.0, 0.5}) {
    TrainOptions options = localRun(3, before);
    options.steps = 4;
    options.files.checkpoint = folder.file("file");
    const TrainReport ended = trainAll(makeRanks(2), options);
    options.averaging.slow_momentum = 0.5 - before;
    options.files.resume = true;
    const TrainReport again = trainAll(makeRanks(2), options);
    INFO("slow momentum " << before << " before");
    REQUIRE(again.parameter_hash == ended.parameter_hash);
    options.steps = 8;
    REQUIRE(trainAll(makeRanks(2), options).steps == 8);
  }
}

TEST_CASE("local SGD averages exactly after every period") {
  TrainOptions options = localRun(4);
  options.steps = 4;
  const TrainReport at_the_end = trainAll(makeRanks(2), options);
  options.averaging.period =
      1000; // never averaged during the run, only for the evaluation at the end
  requireSame(trainAll(makeRanks(2), options), at_the_end);
  options.averaging.period = 3;
  REQUIRE(trainAll(makeRanks(2), options).parameter_hash != at_the_end.parameter_hash);
}

TEST_CASE("local SGD that is resumed between two averages has the same hash and accuracy") {
  TemporaryFolder folder;
  TrainOptions options = localRun(3);
  options.steps = 4;
  options.files.checkpoint = folder.file("file");
  const TrainReport ended = trainAll(makeRanks(2), options);
  options.files.resume = true;
  const TrainReport again = trainAll(makeRanks(2), options);
  REQUIRE(again.parameter_hash == ended.parameter_hash);
  REQUIRE(again.test_accuracy == ended.test_accuracy);
}

TEST_CASE("DataParallel updates running statistics by the mean over ranks") {
  if (!kWholeGrid) return; // too slow with sanitizers, which find nothing more in these layers
  TrainOptions options = smallRun();
  options.model = "resnet18";
  options.data = "synthetic:shape=3x8x8,train=8,test=8";
  options.batch = 8;
  options.steps = 1;
  options.accumulate = 2;
  const TrainReport expected = trainAll(makeRanks(1), options);
  options.accumulate = 1;
  options.strategy = "dp";
  requireSame(trainAll(makeRanks(2), options), expected);
}

TEST_CASE("DataParallel stops on all ranks if one rank is asked to stop") {
  TrainOptions options = smallRun();
  options.strategy = "dp";
  auto ranks = makeRanks(2);
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            TrainOptions own = options;
            if (comm.rank() == 1) own.stop = [asked = 0]() mutable { return ++asked == 2; };
            const TrainReport report = train(comm, own);
            return report.stopped && report.steps == 2 ? "" : std::to_string(report.steps);
          })) == "");
}

TEST_CASE("DataParallel has the same bits as one rank with as many micro-batches", "[sums]") {
  for (const char* model : {"mlp", "cnn"})
    for (int size : {1, 2, 3, 4}) {
      TrainOptions options = smallRun();
      options.model = model;
      options.augment = true;
      options.optimizer.clip = 0.5;
      options.accumulate = size;
      const TrainReport expected = trainAll(makeRanks(1), options);
      options.accumulate = 1;
      options.strategy = "dp";
      INFO(model << ", " << size << " ranks");
      requireSame(trainAll(makeRanks(size, size % 2 == 0 ? "shm" : "tcp"), options), expected);
    }
}

TEST_CASE("a checkpoint of DataParallel continues on other numbers of ranks and as ddp") {
  TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.optimizer.name = "adamw";
  options.files.checkpoint = folder.file("whole");
  options.strategy = "dp";
  const TrainReport whole = trainAll(makeRanks(2), options);
  for (const char* then : {"dp", "ddp"}) {
    options.strategy = "dp";
    options.files.checkpoint = folder.file("part");
    options.files.resume = false;
    options.steps = 2;
    trainAll(makeRanks(2), options);
    options.strategy = then;
    options.files.resume = true;
    options.steps = 0;
    requireSame(trainAll(makeRanks(2), options), whole);
    REQUIRE((readRaw(folder.file("part")) == readRaw(folder.file("whole"))));
  }
}

TEST_CASE("a step sends as many bytes as the formula in the strategy's file says") {
  TrainOptions options = smallRun();
  options.steps = 3;
  const auto bytes = [&](int size, const std::function<void(TrainOptions&)>& change) {
    TrainOptions own = options;
    change(own);
    return trainAll(makeRanks(size), own).bytes_per_step;
  };
  // mlp for 8 x 8 pixels and 10 classes; the 10 biases are padded to a cache line.
  const double values = 4 * (64 * 256 + 256 + 256 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 16);
  const auto gathered = [](TrainOptions& o) { o.gradients.hook = "topk:0.1"; };
  const double message = bytes(2, gathered) / 2;
  REQUIRE(message > 0);
  for (int size : {1, 2, 3, 4}) {
    INFO(size << " ranks");
    REQUIRE(bytes(size, gathered) == size * (size - 1) * message);
    REQUIRE(bytes(size, [](TrainOptions&) {}) == 2 * (size - 1) * values);
    REQUIRE(bytes(size, [](TrainOptions& o) { o.gradients.hook = "bf16"; }) == (size - 1) * values);
    REQUIRE(bytes(size, [](TrainOptions& o) { o.strategy = "ps"; }) == 2 * (size - 1) * values);
    REQUIRE(bytes(size, [](TrainOptions& o) { o.strategy = "local", o.averaging.period = 4; }) ==
            2 * (size - 1) * values / 4);
    REQUIRE(bytes(size, [](TrainOptions& o) { o.strategy = "dp"; }) ==
            (size - 1) * (2 * values + 40.0 * (64 * 4 + 5) / size));
    if (size == 1) continue;
    REQUIRE(bytes(size, [](TrainOptions& o) { o.strategy = "ps", o.servers.dedicated = true; }) ==
            2 * (size - 1) * values);
  }
}

TEST_CASE("options that local SGD and DataParallel do not support are refused by name") {
  const std::vector<Change> changes = {
      {"period is 0", [](TrainOptions& o) { o.strategy = "local", o.averaging.period = 0; }},
      {"slow_momentum is 1",
       [](TrainOptions& o) { o.strategy = "local", o.averaging.slow_momentum = 1; }},
      {"strategy local takes no clip",
       [](TrainOptions& o) { o.strategy = "local", o.optimizer.clip = 1; }},
      {"strategy dp takes no accumulate",
       [](TrainOptions& o) { o.strategy = "dp", o.accumulate = 2; }},
      {"strategy dp takes no hook",
       [](TrainOptions& o) { o.strategy = "dp", o.gradients.hook = "bf16"; }},
      {"strategy ddp takes no period, which is for: local",
       [](TrainOptions& o) { o.averaging.period = 3; }}};
  auto ranks = makeRanks(2);
  requireRefused(ranks, smallRun(), changes);
}

TEST_CASE("a loss that is not finite ends local SGD and DataParallel on all ranks") {
  for (const char* strategy : {"local", "dp"}) {
    TrainOptions options = smallRun();
    options.strategy = strategy;
    options.optimizer.learning_rate = 1e30;
    options.epochs = 6;
    auto ranks = makeRanks(3);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    INFO(thrown.text);
    REQUIRE(thrown.code == ErrorCode::aborted);
    REQUIRE(contains(thrown.text, "the loss of step 2 is not finite"));
  }
}

#endif

} // namespace rondo::test
