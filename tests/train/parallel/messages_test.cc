// Tests smaller messages between workers and servers: codecs for pushes, and answers that contain
// only the keys that have changed.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <deque>
#include <exception>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>

#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/parallel/ps/changes.h"
#include "train/parallel/ps/exchange.h"
#include "train/parallel/ps/server.h"

namespace rondo::test {

using training::servers::answerWords;
using training::servers::Changes;

TEST_CASE(
    "a reader that missed moves gets only the changed keys, and then has the current values") {
  std::mt19937 random(7);
  for (std::size_t count : {1, 31, 32, 33, 64, 1000}) {
    std::vector<float> values(count, 1.0F);
    std::vector<std::vector<float>> has(4, values); // reader r takes every (r+1)st answer
    std::vector<Changes::Move> seen(4);
    Changes changes(count);
    for (int meeting = 0; meeting < 2; ++meeting) {
      changes.begin();
      for (auto& one : has) one = values;
      std::fill(seen.begin(), seen.end(), 0);
      for (int move = 1; move <= 12; ++move) {
        changes.before(values);
        for (float& value : values)
          if (random() % 8 == 0) value = value == 0.0F ? -0.0F : static_cast<float>(random() % 3);
        changes.behind(values);
        for (std::size_t r = 0; r < has.size(); ++r) {
          if (move % static_cast<int>(r + 1) != 0) continue;
          std::size_t differ = 0;
          for (std::size_t i = 0; i < count; ++i)
            differ +=
                std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(has[r][i]);
          std::vector<float> words(answerWords(count, count), 99.0F);
          const std::size_t told = changes.answer(values, seen[r], words.data());
          seen[r] = changes.newest();
          // For other readers a key may have changed back to its old value.
          if (r == 0) CHECK(told == differ);
          CHECK(told >= differ);
          CHECK(answerWords(count, told) <= words.size());
          if (told > 0) training::servers::take(words.data(), has[r]);
          for (std::size_t i = 0; i < count; ++i)
            if (std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(has[r][i]))
              FAIL(count << " keys, move " << move << ", reader " << r << ": key " << i);
        }
      }
    }
  }
}

TEST_CASE("each piece keeps what its messages left out, and its server gets the rest") {
  using namespace training;
  using namespace training::servers;
  constexpr std::size_t kCount = 1008, kPiece = 256; // the first piece is smaller
  auto ranks = makeRanks(2);
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            AlignedVector<float> values(kCount, 1.0F), gradients(kCount), kept(kCount);
            std::mt19937 random(3);
            for (float& one : gradients) one = static_cast<float>(random() % 1000 + 1);
            Weight weight;
            weight.shape = {kCount};
            weight.value = values.data();
            const std::vector<Weight*> weights = {&weight};
            const Keys keys = layOut(values, weights, {}, 1, kPiece);
            Links links = link(comm, 1);
            const auto codec = topKCodec(0.25);
            if (comm.rank() == 0) {
              const Staleness staleness("bsp");
              std::deque<PieceServer> pieces;
              for (const Piece& piece : keys.pieces[0])
                pieces.emplace_back(piece, values, weights, "sgd", OptimizerSettings{.momentum = 0},
                                    Application{.workers = 1, .in_order = true, .sparse = true});
              Server server(links, pieces,
                            {.staleness = staleness,
                             .rate = [](std::int64_t) { return 1.0; },
                             .batch = 1,
                             .codec = codec.get()});
              server.begin(0, 2, 0);
              server.serve(2);
              return server.pulled().told == kCount / 4 ? "" : "another number of keys was told";
            }
            Exchange exchange(links, keys, {gradients, values, kept}, codec.get());
            exchange.begin({.kind = Request::push});
            exchange.gradientStands(0);
            exchange.pull();
            exchange.end();
            for (std::size_t i = 0; i < kCount; ++i)
              if (values[i] != 1.0F - (gradients[i] - kept[i]))
                return "key " + std::to_string(i) + " is " + std::to_string(values[i]);
            for (const Piece& piece : keys.pieces[0]) {
              const auto of_piece = std::span(kept).subspan(piece.begin, piece.count);
              if (std::count(of_piece.begin(), of_piece.end(), 0.0F) !=
                  static_cast<std::ptrdiff_t>(piece.count / 4))
                return "the piece at " + std::to_string(piece.begin) + " sent another number";
            }
            return {};
          })) == "");
}

namespace {

using namespace training;
using namespace training::servers;

/// Differs for any two pieces of a push, and for any two pushes. Sums are exact in 16 bits.
int gradientOf(std::size_t key, int rank, int step) {
  return (static_cast<int>(key) * (rank + 3) + 17 * step) % 61;
}

/// Runs some steps in which each server has many small pieces. Returns a text about the first wrong
/// value.
std::string pushedInSteps(Communicator& comm, int servers, int first_worker, bool narrow) {
  constexpr std::size_t kCount = 1008, kPiece = 32;
  constexpr int kSteps = 4;
  const int workers = comm.size() - first_worker;
  AlignedVector<float> values(kCount, 1.0F), gradients(kCount);
  Weight weight;
  weight.shape = {kCount};
  weight.value = values.data();
  const std::vector<Weight*> weights = {&weight};
  const Keys keys = layOut(values, weights, {}, servers, kPiece);
  Links links = link(comm, first_worker);
  const auto up = narrow ? narrowCodec(DataType::float16) : nullptr;
  const auto down = narrow ? narrowCodec(DataType::float16) : nullptr;
  const Staleness staleness("bsp");
  std::deque<PieceServer> pieces;
  std::optional<Server> server;
  std::exception_ptr fault;
  std::jthread serving;
  if (comm.rank() < servers) {
    for (const Piece& piece : keys.pieces[static_cast<std::size_t>(comm.rank())])
      pieces.emplace_back(piece, values, weights, "sgd", OptimizerSettings{.momentum = 0},
                          Application{.workers = workers, .in_order = true});
    server.emplace(links, pieces,
                   ServerPlan{.staleness = staleness,
                              .rate = [](std::int64_t) { return 1.0; },
                              .batch = workers,
                              .codec = down.get()});
    server->begin(0, kSteps + 1, 0);
    serving = std::jthread([&] {
      try {
        server->serve(kSteps + 1);
      } catch (...) {
        fault = std::current_exception();
      }
    });
  }
  if (comm.rank() >= first_worker) {
    Exchange exchange(links, keys, {gradients, values, {}}, up.get());
    for (int step = 0; step < kSteps; ++step) {
      for (std::size_t i = 0; i < kCount; ++i)
        gradients[i] = static_cast<float>(gradientOf(i, comm.rank(), step));
      exchange.begin({.kind = Request::push});
      exchange.gradientStands(0);
      exchange.pull();
    }
    exchange.end();
  }
  if (serving.joinable()) serving.join();
  if (fault) std::rethrow_exception(fault);
  if (comm.rank() < first_worker) return {};
  for (std::size_t i = 0; i < kCount; ++i) {
    int want = 1;
    for (int rank = first_worker; rank < comm.size(); ++rank)
      for (int step = 0; step < kSteps; ++step) want -= gradientOf(i, rank, step);
    if (values[i] != static_cast<float>(want))
      return "key " + std::to_string(i) + " is " + std::to_string(values[i]) + ", not " +
             std::to_string(want);
  }
  return {};
}

} // namespace

// Proves: pieces that share a server's buffers are each summed over all workers, in every step,
// with and without a codec, with dedicated servers and without.
TEST_CASE("a server with fewer buffers than pieces sums every piece correctly") {
  for (const int size : {2, 3, 4, 5})
    for (const bool narrow : {false, true}) {
      auto ranks = makeRanks(size);
      INFO(size << " ranks, narrow: " << narrow);
      CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) {
              return pushedInSteps(comm, 1, 1, narrow);
            })) == "");
      CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) {
              return pushedInSteps(comm, size, 0, narrow);
            })) == "");
    }
}

// Proves: the worker does not wait until the failed server is destroyed, or until its call times
// out.
TEST_CASE("a server that fails alone ends its workers with its error") {
  auto ranks = makeRanks(2);
  std::atomic<bool> told{false};
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            AlignedVector<float> values(16, 1.0F), gradients(16);
            Weight weight;
            weight.shape = {16};
            weight.value = values.data();
            const std::vector<Weight*> weights = {&weight};
            const Keys keys = layOut(values, weights, {}, 1, 16);
            Links links = link(comm, 1);
            if (comm.rank() == 1) {
              Exchange exchange(links, keys, {gradients, values, {}}, nullptr);
              std::string error = "none";
              try {
                exchange.begin({.kind = Request::push});
                exchange.gradientStands(0);
                exchange.pull();
              } catch (const Error& thrown) {
                error = thrown.what();
              }
              told = true;
              const std::string text = "rank 0 aborted: train: the server failed: no rate";
              if (!contains(error, text)) return "its error is: " + error;
              for (int i = 0; i < 1000 && !comm.failure(); ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
              return comm.failure() && comm.failure()->what() == text ? "" : "the run goes on";
            }
            const Staleness staleness("bsp");
            std::deque<PieceServer> pieces;
            pieces.emplace_back(keys.pieces[0][0], values, weights, "sgd",
                                OptimizerSettings{.momentum = 0}, Application{.in_order = true});
            const auto fail = [](std::int64_t) -> double { throw std::runtime_error("no rate"); };
            Server server(links, pieces, {.staleness = staleness, .rate = fail});
            server.begin(0, 2, 0);
            std::string error = "none";
            try {
              server.serve(2);
            } catch (const std::runtime_error& thrown) {
              error = thrown.what();
            }
            const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (!told && std::chrono::steady_clock::now() < limit)
              std::this_thread::sleep_for(std::chrono::milliseconds(5));
            return error == "no rate" ? "" : "the server's error is: " + error;
          })) == "");
}

TEST_CASE("running statistics move once per round of pushes, also if one worker is ahead") {
  using namespace training;
  using namespace training::servers;
  const std::vector<float> keys(16, 1.0F);
  PieceServer piece({.begin = 0, .count = 16, .state = true, .weights = {}}, keys, {}, "sgd", {},
                    {.workers = 2, .in_order = false, .samples = 2});
  piece.begin(0);
  std::vector<float> pushed(16, 3.0F);
  piece.push(1, pushed.data(), 0.1);
  REQUIRE(piece.values()[5] == 1.0F);
  piece.push(1, pushed.data(), 0.1); // the second push counts, although it is from the same worker
  REQUIRE(std::abs(piece.values()[5] - 1.2F) < 1e-6F); // a tenth of the way to the mean
  REQUIRE(piece.clock(1) == 2);
  REQUIRE(piece.oldest() == 0);
}

// Proves: without order, a push of each worker decays and moves the values as one step does.
TEST_CASE("pushes that are steps of their own together move the values as far as one step") {
  using namespace training;
  using namespace training::servers;
  for (const char* optimizer : {"sgd", "adamw"}) {
    INFO(optimizer);
    const int workers = 4;
    std::vector<float> keys(16, 1.0F), moved;
    for (const bool in_order : {true, false}) {
      Weight weight;
      weight.value = keys.data();
      weight.shape = {16};
      weight.decays = true;
      Weight* const weights[] = {&weight};
      PieceServer piece({.begin = 0, .count = 16, .weights = {0}}, keys, weights, optimizer,
                        {.momentum = 0, .weight_decay = 0.1},
                        {.workers = workers, .in_order = in_order});
      piece.begin(0);
      std::vector<std::vector<float>> pushes(workers, std::vector<float>(16, 0.0F));
      for (int worker = 0; worker < workers; ++worker)
        piece.push(worker, pushes[static_cast<std::size_t>(worker)].data(), 0.2);
      moved.push_back(piece.values()[5]);
    }
    CHECK(moved[0] < 0.99F); // 0.98, and 0.995^4 of 1
    CHECK(std::abs(moved[1] - moved[0]) < 1e-3F);
  }
}

#ifdef RONDO_HAVE_DNNL

namespace {

TrainOptions compressedRun(const std::string& hook) {
  TrainOptions options = smallRun();
  options.strategy = "ps";
  options.servers.count = 2;
  options.gradients.hook = hook;
  return options;
}

} // namespace

TEST_CASE(
    "pushes in 16 bits are rounded like the gradients of one rank, with any number of servers") {
  for (const char* hook : {"bf16", "fp16"}) {
    TrainOptions options = compressedRun(hook);
    options.servers.count = 1;
    const TrainReport served = trainAll(makeRanks(1), options);
    options.strategy = "ddp";
    requireSame(trainAll(makeRanks(1), options), served);
    options.gradients.hook = "none";
    REQUIRE(trainAll(makeRanks(1), options).parameter_hash != served.parameter_hash);
    // Each of three servers adds the gradients that three workers rounded: the same sums for any
    // number of servers.
    options = compressedRun(hook);
    const TrainReport two = trainAll(makeRanks(3), options);
    REQUIRE(two.pulled == 1);
    options.servers.count = 3;
    requireSame(trainAll(makeRanks(3), options), two);
  }
}

TEST_CASE("answers that leave keys out give the same bytes as complete answers") {
  TrainOptions options = compressedRun("topk:1"); // pushes contain all keys
  const TrainReport all = trainAll(makeRanks(3, "shm"), options);
  options.gradients.hook = "none";
  requireSame(trainAll(makeRanks(3, "tcp"), options), all);
  for (const char* consistency : {"bsp", "asp"}) {
    INFO(consistency);
    options.gradients.hook = "topk:0.02";
    options.optimizer.momentum = 0; // keys without a gradient do not change
    options.servers.consistency = consistency;
    options.gradients.verify_every = 0;
    // A synchronization point every 15 steps.
    options.data = "synthetic:shape=1x8x8,train=600,test=20";
    options.epochs = 4;
    const TrainReport sparse = trainAll(makeRanks(3), options);
    REQUIRE(sparse.pulled > 0);
    INFO(sparse.pulled);
    REQUIRE(sparse.pulled < 0.065); // at most 2% of the keys for each of three workers
    if (options.servers.consistency != "bsp") continue;
    // A synchronization point, at which all values are sent, after every step
    options.gradients.verify_every = 1;
    requireSame(trainAll(makeRanks(3), options), sparse);
  }
}

TEST_CASE("a run continues with what its workers had kept, only on the same number of ranks") {
  TemporaryFolder folder;
  TrainOptions options = compressedRun("topk:0.1");
  options.servers.dedicated = true;
  options.files.checkpoint = folder.file("whole");
  const TrainReport whole = trainAll(makeRanks(4), options);
  TrainOptions first = options;
  first.files.checkpoint = options.files.checkpoint = folder.file("part");
  first.steps = 2;
  trainAll(makeRanks(4), first);
  options.files.resume = true;
  auto three = makeRanks(3);
  const Thrown thrown = thrownByAll(three, [&](Communicator& comm) { train(comm, options); });
  REQUIRE(thrown.code == ErrorCode::invalid_argument);
  REQUIRE(contains(thrown.text, "4 ranks wrote it"));
  requireSame(trainAll(makeRanks(4), options), whole);
  REQUIRE((readRaw(folder.file("part")) == readRaw(folder.file("whole"))));
}

#endif

} // namespace rondo::test
