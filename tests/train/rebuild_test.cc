// Tests that ranks go on from what other ranks hold in memory, and which elastic runs are refused.
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "support/data_files.h"
#include "support/grid.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/loop/compute_threads.h"
#include "train/loop/rebuild.h"
#include "train/loop/settings.h"
#include "train/loop/trainer.h"
#include "train/parallel/strategy.h"

namespace rondo::test {

namespace {

using namespace training;

std::string refusalOf(const TrainOptions& options, int ranks) {
  try {
    check(options, ranks);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
}

} // namespace

TEST_CASE("options of elastic runs are refused in other runs") {
  for (const char* name : {"redundancy", "rendezvous_file", "elastic_wait"}) {
    TrainOptions options;
    options.strategy = "zero1";
    if (name == std::string("redundancy")) options.elastic.redundancy = 0;
    else if (name == std::string("rendezvous_file")) options.elastic.rendezvous_file = "run.id";
    else options.elastic.wait = 3;
    CHECK(refusalOf(options, 2) == std::string("train: ") + name + " needs elastic");
  }
}

TEST_CASE("an elastic run that could not go on is refused before it begins") {
  TrainOptions large;
  large.elastic.ranks = "1:4096";
  large.accumulate = large.batch = 1 << 20;
  CHECK(contains(refusalOf(large, 1), "must be at least 4294967296, for MAX of elastic"));
  TrainOptions options;
  options.elastic.ranks = "2:4";
  for (const char* strategy : {"ddp", "local", "zero1", "zero2", "ps"}) {
    options.strategy = strategy;
    INFO(strategy);
    CHECK(refusalOf(options, 4) == "");
  }
  for (const char* strategy : {"tensor", "pipeline", "dp"}) {
    options.strategy = strategy;
    const std::string text = refusalOf(options, 4);
    INFO(text);
    CHECK(contains(text, std::string("strategy ") + strategy + " takes no elastic"));
    CHECK(contains(text, "a run that lost a rank returns to its checkpoint"));
  }
  options.strategy = "fsdp";
  const std::string needs = "elastic runs of strategy fsdp need redundancy 1 or a checkpoint";
  CHECK(contains(refusalOf(options, 4), needs));
  options.files.checkpoint = "run.ckpt";
  CHECK(refusalOf(options, 4) == "");
  options.files.checkpoint.clear();
  options.elastic.redundancy = 1;
  CHECK(refusalOf(options, 4) == "");
  options.sharding.mesh = "data=2,shard=2";
  CHECK(contains(refusalOf(options, 4), "elastic runs take no mesh"));
  options.sharding.mesh.clear();
  options.strategy = "ps";
  options.servers.count = 4; // of 2 ranks, 2 serve
  CHECK(refusalOf(options, 4) == "");
  options.servers.consistency = "asp";
  CHECK(contains(refusalOf(options, 4), "elastic runs of strategy ps take consistency bsp only"));
  options.servers.consistency = "bsp";
  options.servers.dedicated = true;
  CHECK(refusalOf(options, 4) == "");
  options.elastic.ranks = "1:4"; // one rank both serves and works
  CHECK(refusalOf(options, 4) == "");
}

#ifdef RONDO_HAVE_DNNL

namespace {

constexpr int kSteps = 2;

Thrown refusalBy(int ranks, const TrainOptions& options) {
  auto comms = makeRanks(ranks);
  return thrownByAll(comms, [&](Communicator& comm) { rondo::train(comm, options); });
}

/// A strategy of some ranks, with its position in the run.
struct Part {
  Part(Communicator& among, const TrainOptions& options, const Data& data)
      : comm(among), strategy(strategyFor(options, comm.size()).make({comm, options, data})) {}

  Running running() { return {*strategy, at, report, identity, 100}; }

  Communicator& comm;
  std::unique_ptr<Strategy> strategy;
  Position at;
  TrainReport report;
  std::string identity;
};

/// Makes some steps. Returns what the rank holds after them: with copies, or only its own.
Held train(Part& part, bool copies) {
  Copies all(part.comm);
  Held held;
  for (int step = 0; step < kSteps; ++step) {
    const Position before = part.at;
    part.at = part.strategy->run(before, before.total + 1, nullptr).at;
    if (copies) all.renew(part.running(), before);
  }
  if (copies) {
    held.kept = all.take(part.at);
  } else {
    Kept& own = held.kept.emplace_back();
    own.shards = part.comm.size();
    own.rank = part.comm.rank();
    own.at = part.at;
    copy(part.strategy->held(), own.own);
  }
  return held;
}

/// Says nothing of the bytes, which are many.
bool areEqual(const std::string& file, const std::string& other) {
  return readRaw(file) == readRaw(other);
}

/// Of three ranks, those of the `lost` (a bit for each) are gone. Returns what the others find.
Rebuilt::State afterLoss(const TrainOptions& options, unsigned lost, bool copies,
                         std::string& shards) {
  TemporaryFolder folder;
  auto ranks = makeRanks(3);
  std::array<Rebuilt::State, 3> states{};
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            const ComputeThreads threads;
            const Data data = load(options);
            Part before(comm, options, data);
            const Held held = train(before, copies);
            save(comm, folder.file("before"), before.running());
            const bool gone = (lost >> comm.rank() & 1) != 0;
            auto left = comm.split(gone ? 1 : 0, comm.rank());
            if (gone) return {};
            Part after(*left, options, data);
            const Rebuilt found = rebuild(*left, held, after.running());
            states[static_cast<std::size_t>(left->rank())] = found.state;
            if (left->rank() == 0) shards = found.shards;
            if (found.state != Rebuilt::State::present) return {};
            if (after.at.total != kSteps) return "is at another step";
            save(*left, folder.file("after"), after.running());
            return {};
          })) == "");
  if (states[0] == Rebuilt::State::present)
    CHECK(areEqual(folder.file("before"), folder.file("after")));
  return states[0];
}

struct Case {
  std::string strategy, model, optimizer;
};
const std::vector<Case> kCases = {{"zero1", "mlp", "sgd"},
                                  {"zero2", "mlp", "adamw"},
                                  {"fsdp", "mlp", "adamw"},
                                  {"ps", "mlp", "adamw"},
                                  {"ddp", "mlp", "sgd"}};
/// Its running statistics make it different.
const std::vector<Case> kNormed = {{"fsdp", "resnet18", "sgd"}, {"ps", "resnet18", "sgd"}};

TrainOptions optionsOf(const Case& one) {
  TrainOptions options = smallRun();
  options.elastic.ranks = "1:4";
  options.strategy = one.strategy;
  options.model = one.model;
  options.optimizer.name = one.optimizer;
  if (one.strategy == "ps") options.servers.count = 3;
  return options;
}

} // namespace

// Proves: MIN ranks must fit the limit from the beginning, not only those that are there.
TEST_CASE("an elastic run that MIN ranks could not hold is refused before it begins") {
  TrainOptions options = optionsOf({"fsdp", "mlp", "sgd"});
  options.elastic.ranks.clear();
  const std::uint64_t three = trainAll(makeRanks(3), options).held_bytes;
  const std::uint64_t two = trainAll(makeRanks(2), options).held_bytes;
  REQUIRE(three < two);
  options.elastic.ranks = "2:3";
  options.elastic.redundancy = 1;
  options.sharding.memory_limit = three;
  const Thrown thrown = refusalBy(3, options);
  CHECK(thrown.code == ErrorCode::invalid_argument);
  CHECK(contains(thrown.text,
                 "memory_limit is " + std::to_string(three) +
                     " bytes, but strategy fsdp with only 2 ranks (MIN of elastic) needs " +
                     std::to_string(two) + " on a rank"));
  options.sharding.memory_limit = two;
  CHECK(trainAll(makeRanks(3), options).held_bytes == three);
}

// Proves: ranks that cannot train still wait, so that they can write the checkpoint.
TEST_CASE("fewer ranks than MIN wait, whether or not the strategy can train on so few") {
  TrainOptions sharded = optionsOf({"fsdp", "mlp", "sgd"});
  sharded.elastic.ranks.clear();
  sharded.sharding.memory_limit = trainAll(makeRanks(2), sharded).held_bytes;
  sharded.elastic.redundancy = 1;
  TrainOptions served = optionsOf({"ps", "mlp", "sgd"});
  served.servers.dedicated = true;
  for (TrainOptions* options : {&sharded, &served}) {
    INFO(options->strategy);
    options->elastic.ranks = "2:3";
    options->elastic.wait = 0;
    const Thrown thrown = refusalBy(1, *options);
    INFO(thrown.text);
    CHECK(thrown.code == ErrorCode::peer_dead);
    CHECK(contains(thrown.text, "only 1 of at least 2 ranks are there after step 0"));
  }
}

TEST_CASE("the last rank of an elastic run with dedicated servers both serves and works") {
  TrainOptions options = optionsOf({"ps", "mlp", "sgd"});
  options.servers.dedicated = true;
  const TrainReport report = trainAll(makeRanks(1), options);
  CHECK(report.bytes_per_step == 0);
  requireSame(report, trainAll(makeRanks(1), optionsOf({"ddp", "mlp", "sgd"})));
}

// Proves: weights, running statistics and the optimizer's state, of the lost rank too, are those
// after the last step, to the last bit.
TEST_CASE("two of three ranks have the whole state by their copies") {
  std::vector<Case> all = kCases;
  if (kWholeGrid) all.insert(all.end(), kNormed.begin(), kNormed.end());
  for (const Case& one : all) {
    INFO(one.strategy << ", " << one.model);
    std::string shards;
    REQUIRE(afterLoss(optionsOf(one), 2, true, shards) == Rebuilt::State::present);
    if (one.strategy == "ddp") continue;
    CHECK(shards == "the shard of rank 1 comes from its copy on rank 0");
  }
}

TEST_CASE("without a copy the shard of a lost rank is lost, and so are those of two neighbours") {
  const TrainOptions options = optionsOf({"fsdp", "mlp", "sgd"});
  std::string shards;
  CHECK(afterLoss(options, 2, false, shards) == Rebuilt::State::lost);
  CHECK(shards == "the shard of rank 1 is lost");
  CHECK(afterLoss(options, 6, true, shards) == Rebuilt::State::lost);
  CHECK(shards == "the shard of rank 2 is lost");
}

// Proves: the model and the optimizer's state come from the file; only residuals begin anew.
TEST_CASE("two ranks return to a checkpoint with residuals of three") {
  TrainOptions options = optionsOf({"ps", "mlp", "adamw"});
  options.gradients.hook = "topk:0.01";
  TemporaryFolder folder;
  auto ranks = makeRanks(3);
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            const ComputeThreads threads;
            const Data data = load(options);
            Part before(comm, options, data);
            train(before, false);
            const std::uint64_t hash = before.strategy->verify("");
            save(comm, folder.file("before"), before.running());
            auto left = comm.split(comm.rank() == 2 ? 1 : 0, comm.rank());
            if (comm.rank() == 2) return {};
            Part after(*left, options, data);
            restore(*left, folder.file("before"), after.running(), true);
            if (after.at.total != kSteps) return "is at another step";
            return after.strategy->verify("") == hash ? "" : "has another model";
          })) == "");
}

// Proves: also if the next rank dies before the step that would have told it.
TEST_CASE("where a lost shard came from is told in the next complete step, once") {
  TrainOptions options = optionsOf({"ddp", "mlp", "sgd"});
  options.steps = kSteps;
  const ComputeThreads threads;
  const Data data = load(options);
  auto ranks = makeRanks(1);
  Held held;
  held.recovery = "from a copy";
  std::vector<std::string> told;
  for (const bool fails : {true, false}) {
    ElasticRanks elastic(ranks[0], options);
    const auto strategy = strategyFor(options, 1).make({ranks[0], options, data});
    options.stop = [fails]() -> bool {
      if (fails) throw Error(ErrorCode::transport, "a rank is lost");
      return false;
    };
    const Progress note = [&](const TrainProgress& now) { told.push_back(now.recovery); };
    Trainer trainer(ranks[0], options, data, *strategy, note, &elastic);
    if (!fails) {
      trainer.run(held);
      continue;
    }
    CHECK_THROWS_AS(trainer.run(held), Error);
    REQUIRE(trainer.begun());
    held = trainer.hold(true);
  }
  CHECK(told == std::vector<std::string>{"from a copy", ""});
}

// Proves: a rank that is lost between the last step and its checkpoint does not cost the
// checkpoint.
TEST_CASE("a run that lost a rank after its last step writes the checkpoint") {
  const TemporaryFolder folder;
  TrainOptions options = optionsOf({"ddp", "mlp", "sgd"});
  options.steps = kSteps;
  options.files.checkpoint = folder.file("checkpoint");
  const ComputeThreads threads;
  const Data data = load(options);
  auto ranks = makeRanks(1);
  Held held;
  for (const bool again : {false, true}) {
    ElasticRanks elastic(ranks[0], options);
    const auto strategy = strategyFor(options, 1).make({ranks[0], options, data});
    const Progress none;
    Trainer trainer(ranks[0], options, data, *strategy, none, &elastic);
    CHECK(trainer.run(held).steps == kSteps);
    REQUIRE(std::filesystem::exists(options.files.checkpoint));
    if (again) continue;
    held = trainer.hold(true);
    held.saved = -1; // as if the rank had been lost before
    std::filesystem::remove(options.files.checkpoint);
  }
}

// Proves: a rank without state gets its part of the state of the others, to the last bit.
TEST_CASE("a rank that joins gets its shard from the ranks that train") {
  for (const Case& one : kCases) {
    INFO(one.strategy << ", " << one.model);
    const TrainOptions options = optionsOf(one);
    TemporaryFolder folder;
    auto ranks = makeRanks(3);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              const ComputeThreads threads;
              const Data data = load(options);
              auto first = comm.split(comm.rank() == 2 ? 1 : 0, comm.rank());
              Held held;
              if (comm.rank() != 2) {
                Part before(*first, options, data);
                held = train(before, false);
                if (one.strategy == "ddp") held.kept[0].shards = 1, held.kept[0].rank = 0;
                save(*first, folder.file("before"), before.running());
              }
              Part after(comm, options, data);
              const Rebuilt found = rebuild(comm, held, after.running());
              if (found.state != Rebuilt::State::present || after.at.total != kSteps)
                return "has no state";
              save(comm, folder.file("after"), after.running());
              return {};
            })) == "");
    CHECK(areEqual(folder.file("before"), folder.file("after")));
  }
}

#endif

} // namespace rondo::test
