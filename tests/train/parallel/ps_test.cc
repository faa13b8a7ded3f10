// Tests parameter servers: bit for bit like one rank if synchronous, within the bound if not.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "rondo/train.h"
#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

TrainOptions servedRun(int servers = 1, bool dedicated = false) {
  TrainOptions options = smallRun();
  options.strategy = "ps";
  options.servers.count = servers;
  options.servers.dedicated = dedicated;
  return options;
}

/// Trains on one rank what `workers` workers would do.
TrainReport alone(TrainOptions options, int workers) {
  options.strategy = "ddp";
  options.servers.count = 1;
  options.servers.dedicated = false;
  options.servers.consistency = "bsp";
  options.accumulate *= workers;
  return trainAll(makeRanks(1), options);
}

std::uint64_t sum(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

} // namespace

TEST_CASE("synchronous workers train bit for bit like one rank with as many micro-batches",
          "[threads]") {
  for (int size : {1, 2, 3, 4})
    for (int servers = 1; servers <= size; ++servers)
      for (bool dedicated : {false, true}) {
        if (dedicated && servers == size) continue;
        TrainOptions options = servedRun(servers, dedicated);
        options.gradients.verify_every = size; // synchronization points at different steps
        const TrainReport expected = alone(options, dedicated ? size - servers : size);
        const std::string transport = size % 2 == 0 ? "shm" : "tcp";
        for (const char* consistency : {"bsp", "ssp:0"}) {
          INFO(size << " ranks, " << servers << " servers, dedicated " << dedicated << ", "
                    << consistency);
          options.servers.consistency = consistency;
          const TrainReport report = trainAll(makeRanks(size, transport, false), options);
          requireSame(report, expected);
          REQUIRE(report.test_accuracy == expected.test_accuracy);
        }
      }
}

TEST_CASE(
    "synchronous workers equal ddp with other optimizers, micro-batches, schedules, statistics",
    "[threads]") {
  TrainOptions options = servedRun(2);
  options.optimizer.name = "adamw";
  options.optimizer.weight_decay = 0.01;
  options.optimizer.learning_rate = 0.002;
  options.optimizer.schedule = "cosine";
  options.optimizer.warm_up = 2;
  options.accumulate = 2;
  options.augment = true;
  // Each worker adds its two micro-batches before it pushes. One rank with four would add them in
  // another order.
  const TrainReport one = trainAll(makeRanks(3), options);
  options.strategy = "ddp";
  options.servers.count = 1;
  requireSame(trainAll(makeRanks(3), options), one);
  if (!kWholeGrid) return; // eleven million weights
  options = servedRun(2);
  options.model = "resnet18";
  options.data = "synthetic:shape=3x8x8,train=16,test=9";
  options.batch = 8;
  options.steps = 2;
  requireSame(trainAll(makeRanks(2), options), alone(options, 2));
}

TEST_CASE(
    "a push before a synchronization point gets no answer, in whatever order its pieces arrive",
    "[threads]") {
  // The first layer's gradients complete the second piece long after the first one was sent.
  TrainOptions options = servedRun();
  options.model = "cnn";
  options.data = "synthetic:shape=1x28x28,train=64,test=8";
  options.batch = 8;
  options.gradients.verify_every = 2;
  for (const char* consistency : {"bsp", "ssp:1"})
    for (int size : {1, 2}) {
      INFO(consistency << ", " << size << " ranks");
      options.servers.consistency = consistency;
      const TrainReport report = trainAll(makeRanks(size), options);
      CHECK(report.steps == 8 * options.epochs);
      if (options.servers.consistency == "bsp") requireSame(report, alone(options, size));
    }
}

TEST_CASE("no worker reads values that are older than its bound allows", "[threads]") {
  for (int bound : {0, 1, 3}) {
    TrainOptions options = servedRun(2);
    options.steps = 24;
    options.epochs = 8;
    options.gradients.verify_every = 0;
    options.stragglers.pace_ms = 1;
    options.stragglers.slow = {{.rank = 2, .factor = 6}};
    options.stragglers.jitter = {.probability = 0.3, .factor = 4};
    options.servers.consistency = "ssp:" + std::to_string(bound);
    // An epoch of 25 steps has one synchronization point.
    options.data = "synthetic:shape=1x8x8,train=1000,test=20";
    const TrainReport report = trainAll(makeRanks(3), options);
    INFO("bound " << bound);
    REQUIRE(report.steps == 24);
    REQUIRE(sum(report.staleness) == 3 * 24); // each worker does the same number of steps
    REQUIRE(report.staleness.size() == static_cast<std::size_t>(bound) + 1);
    REQUIRE(report.staleness.back() > 0);
    options.servers.consistency = "asp";
    if (bound > 0) continue;
    const TrainReport free = trainAll(makeRanks(3), options);
    REQUIRE(free.steps == 24);
    REQUIRE(sum(free.staleness) == 3 * 24);
    REQUIRE(free.staleness.size() > 5); // no worker waits for the slow one
  }
}

// Proves: with values that do not move, the losses of an epoch add up to those of each sample once.
TEST_CASE("an epoch has each sample once, also if one worker is much slower than the others",
          "[threads]") {
  TrainOptions options = servedRun();
  options.data = "synthetic:shape=1x8x8,train=1200,test=20";
  options.optimizer.learning_rate = 0;
  options.stragglers.pace_ms = 1;
  options.stragglers.slow = {{.rank = 0, .factor = 6}};
  const TrainReport expected = alone(options, 1);
  for (const char* consistency : {"bsp", "ssp:2", "asp"})
    for (const int every : {0, 7}) { // with and without synchronization points within an epoch
      options.servers.consistency = consistency;
      options.gradients.verify_every = every;
      const TrainReport report = trainAll(makeRanks(3), options);
      INFO(consistency << ", " << every);
      REQUIRE(report.epoch_loss.size() == expected.epoch_loss.size());
      for (std::size_t i = 0; i < expected.epoch_loss.size(); ++i) {
        INFO(report.epoch_loss[i] << " and " << expected.epoch_loss[i]);
        CHECK(std::abs(report.epoch_loss[i] - expected.epoch_loss[i]) < 1e-5);
      }
    }
}

TEST_CASE("asynchronous workers learn, and end with the same values on all ranks", "[threads]") {
  for (const char* consistency : {"ssp:2", "asp"})
    for (int servers : {1, 3}) {
      TrainOptions options = servedRun(servers);
      options.data = "synthetic:shape=1x8x8,train=1000,test=200";
      options.epochs = 3;
      options.gradients.verify_every = 4;
      options.servers.consistency = consistency;
      // Checks that all ranks have the same report.
      const TrainReport report = trainAll(makeRanks(3), options);
      INFO(consistency << ", " << servers << " servers");
      REQUIRE(report.steps == 75);
      REQUIRE(report.epoch_loss.back() < report.epoch_loss.front() / 2);
      // Guessing gives 0.1; the staleness depends on the machine.
      REQUIRE(report.test_accuracy > 0.8);
    }
}

TEST_CASE("dedicated servers reach the synchronization points with every consistency",
          "[threads]") {
  for (const char* consistency : {"bsp", "ssp:1", "asp"})
    for (int servers : {1, 2}) {
      INFO(consistency << ", " << servers << " servers");
      TrainOptions options = servedRun(servers, true);
      options.servers.consistency = consistency;
      options.gradients.verify_every = 2;
      REQUIRE(trainAll(makeRanks(4), options).steps == 6);
    }
}

// Proves: in an elastic run all ranks get the values after each step, also servers that do not
// work.
TEST_CASE("bytes of a step: an elastic run with dedicated servers sends the values to all ranks",
          "[threads]") {
  for (const bool dedicated : {false, true}) {
    TrainOptions options = servedRun(2, dedicated);
    const double fixed = trainAll(makeRanks(4), options).bytes_per_step;
    options.elastic.ranks = "2:4";
    const double elastic = trainAll(makeRanks(4), options).bytes_per_step;
    // Two workers push to two servers, and these send to two workers or to all ranks but one.
    CHECK(elastic == (dedicated ? fixed / 4 * 5 : fixed));
  }
}

TEST_CASE("a run continues from its checkpoint with any number of servers, with the same bytes",
          "[threads]") {
  TemporaryFolder folder;
  for (const char* optimizer : {"sgd", "adamw"}) {
    TrainOptions options = servedRun(2);
    options.optimizer.name = optimizer;
    options.optimizer.learning_rate = 0.002;
    options.files.checkpoint = folder.file("whole");
    const TrainReport whole = trainAll(makeRanks(3), options);
    const Bytes expected = readRaw(folder.file("whole"));
    options.files.checkpoint = folder.file("part");
    for (const auto& [servers, strategy] :
         std::vector<std::pair<int, std::string>>{{2, "ps"}, {1, "ps"}, {3, "ps"}, {1, "ddp"}}) {
      INFO(optimizer << ", on to " << servers << " servers of " << strategy);
      TrainOptions first = options;
      first.steps = 2;
      first.files.resume = false;
      trainAll(makeRanks(3), first);
      TrainOptions then = options;
      then.strategy = strategy;
      then.servers.count = servers;
      then.files.resume = true;
      requireSame(trainAll(makeRanks(3), then), whole);
      REQUIRE((readRaw(folder.file("part")) == expected));
    }
  }
}

TEST_CASE("a checkpoint of asynchronous workers names the options that another run changes",
          "[threads]") {
  TemporaryFolder folder;
  TrainOptions options = servedRun();
  options.files.checkpoint = folder.file("file");
  options.servers.consistency = "ssp:1";
  trainAll(makeRanks(2), options);
  options.files.resume = true;
  options.servers.consistency = "bsp";
  auto ranks = makeRanks(2);
  const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
  INFO(thrown.text);
  REQUIRE(contains(thrown.text,
                   "has 12 optimizer steps for 6 steps of the run, but this run makes 1 in each "
                   "step: it was written with another consistency"));
}

TEST_CASE("metrics of asynchronous workers contain each step at most once, the first one first",
          "[threads]") {
  TemporaryFolder folder;
  TrainOptions options = servedRun();
  options.servers.consistency = "asp";
  options.stragglers.slow = {{.rank = 0, .factor = 4}};
  options.stragglers.pace_ms = 2;
  options.epochs = 4;
  options.files.metrics = folder.file("metrics");
  trainAll(makeRanks(3), options);
  const Bytes bytes = readRaw(options.files.metrics);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::int64_t last = 0;
  const std::string_view before = R"("kind":"step","number":)";
  for (auto at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    const std::int64_t number = std::stoll(text.substr(at + before.size()));
    REQUIRE(number > last);
    last = number;
  }
  REQUIRE(last == 12);
}

TEST_CASE("if one rank is asked to stop, all workers stop at the same step, and can continue",
          "[threads]") {
  TemporaryFolder folder;
  for (const char* consistency : {"bsp", "ssp:1", "asp"}) {
    TrainOptions options = servedRun(1);
    options.data = "synthetic:shape=1x8x8,train=4000,test=20";
    options.servers.consistency = consistency;
    options.files.checkpoint = folder.file("file");
    auto ranks = makeRanks(3);
    std::vector<TrainReport> reports(3);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              TrainOptions own = options;
              if (comm.rank() == 1) own.stop = [asked = 0]() mutable { return ++asked >= 5; };
              reports[static_cast<std::size_t>(comm.rank())] = train(comm, own);
              return {};
            })) == "");
    INFO(consistency << ": " << reports[0].steps);
    REQUIRE(reports[0].stopped);
    REQUIRE(reports[0].steps >= 1);
    REQUIRE(reports[0].steps < 50); // before the next synchronization point
    REQUIRE(reports[1].steps == reports[0].steps);
    options.files.resume = true;
    options.steps = 60;
    REQUIRE(trainAll(std::move(ranks), options).steps == 60);
  }
}

TEST_CASE("options that parameter servers do not support are refused by name", "[threads]") {
  const std::vector<Change> changes = {
      {"servers is 0, must be 1 to 3 of 3 ranks", [](TrainOptions& o) { o.servers.count = 0; }},
      {"servers is 4, must be 1 to 3 of 3 ranks", [](TrainOptions& o) { o.servers.count = 4; }},
      {"servers is 3, must be 1 to 2 of 3 ranks, because one rank must be a worker",
       [](TrainOptions& o) { o.servers.count = 3, o.servers.dedicated = true; }},
      {"consistency \"ssp\"; valid: bsp, ssp:STALENESS, asp",
       [](TrainOptions& o) { o.servers.consistency = "ssp"; }},
      {"consistency \"ssp:-1\"", [](TrainOptions& o) { o.servers.consistency = "ssp:-1"; }},
      {"takes no optimizer lars", [](TrainOptions& o) { o.optimizer.name = "lars"; }},
      {"hook \"powersgd:2\"; valid: none, fp16, bf16, topk:DENSITY",
       [](TrainOptions& o) { o.gradients.hook = "powersgd:2"; }},
      {"strategy ps takes no clip", [](TrainOptions& o) { o.optimizer.clip = 1; }},
      {"strategy ps takes no sync_batch_norm", [](TrainOptions& o) { o.sync_batch_norm = true; }},
      {"at least workers x accumulate, 63", [](TrainOptions& o) { o.accumulate = 21; }},
      {"strategy ddp takes no servers, which is for: ps",
       [](TrainOptions& o) { o.strategy = "ddp", o.servers.count = 2; }},
      {"strategy ddp takes no consistency",
       [](TrainOptions& o) { o.strategy = "ddp", o.servers.consistency = "asp"; }},
      {"slow names rank 3, there are 0 to 2",
       [](TrainOptions& o) {
         o.stragglers.slow = {{3, 2}};
       }},
      {"the factor of slow is 0.5",
       [](TrainOptions& o) {
         o.stragglers.slow = {{1, 0.5}};
       }},
      {"the probability of jitter is 2",
       [](TrainOptions& o) {
         o.stragglers.jitter = {2, 2};
       }},
      {"pace_ms is -1", [](TrainOptions& o) { o.stragglers.pace_ms = -1; }}};
  auto ranks = makeRanks(3);
  requireRefused(ranks, servedRun(), changes);
  trainAll(std::move(ranks), servedRun());
}

TEST_CASE("a loss that is not finite ends all ranks, including servers", "[threads]") {
  for (const char* consistency : {"bsp", "ssp:1", "asp"}) {
    TrainOptions options = servedRun(1, true);
    options.servers.consistency = consistency;
    options.optimizer.learning_rate = 1e30;
    options.steps = 6;
    auto ranks = makeRanks(3);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    INFO(thrown.text);
    REQUIRE(thrown.code == ErrorCode::aborted);
    REQUIRE(contains(thrown.text, "not finite"));
  }
}

TEST_CASE("a worker or server whose callback throws leaves no rank waiting", "[threads]") {
  for (int bad : {0, 2})
    for (const char* consistency : {"bsp", "asp"}) {
      TrainOptions options = servedRun(1);
      options.servers.consistency = consistency;
      auto ranks = makeRanks(3);
      const auto complaints = onRanks(ranks, [&](Communicator& comm) -> std::string {
        // The communicator is destroyed when its rank ends, as in a program.
        Communicator own = std::move(comm);
        try {
          train(own, options, [&](const TrainProgress&) {
            if (own.rank() == bad) throw std::runtime_error("disk full");
          });
        } catch (const Error& error) {
          return std::string(name(error.code()));
        }
        return "nothing";
      });
      for (int rank = 0; rank < 3; ++rank) {
        INFO("bad " << bad << ", rank " << rank << ": "
                    << complaints[static_cast<std::size_t>(rank)]);
        const std::string& got = complaints[static_cast<std::size_t>(rank)];
        REQUIRE(contains(got, rank == bad ? "disk full" : ""));
        REQUIRE(got != "nothing");
        REQUIRE(got != "timeout");
      }
    }
}

#endif

} // namespace rondo::test
