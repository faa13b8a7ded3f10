// What workers and servers leave out of their messages: codecs of pushes, and answers that hold
// what has changed only.
#include <bit>
#include <numeric>
#include <random>

#include "support/data_files.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/parallel/ps/changes.h"

namespace rondo::test {

using training::servers::answerWords;
using training::servers::Changes;

TEST_CASE("whoever missed moves gets just the keys that they changed, and then has the values") {
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
          if (r == 0) CHECK(told == differ); // others may find a key back where it was
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

#ifdef RONDO_HAVE_DNNL

namespace {

TrainOptions compressedRun(const std::string& hook) {
  TrainOptions options = smallRun();
  options.strategy = "ps";
  options.servers = 2;
  options.hook = hook;
  return options;
}

} // namespace

TEST_CASE("pushes in 16 bits are rounded as the gradients of one rank are, whoever serves") {
  for (const char* hook : {"bf16", "fp16"}) {
    TrainOptions options = compressedRun(hook);
    options.servers = 1;
    const TrainReport served = trainAll(makeRanks(1), options);
    options.strategy = "ddp";
    requireSame(trainAll(makeRanks(1), options), served);
    options.hook = "none";
    REQUIRE(trainAll(makeRanks(1), options).parameter_hash != served.parameter_hash);
    // Of three workers each server adds what they rounded: the same sums, however they are cut.
    options = compressedRun(hook);
    const TrainReport two = trainAll(makeRanks(3), options);
    REQUIRE(two.pulled == 1);
    options.servers = 3;
    requireSame(trainAll(makeRanks(3), options), two);
  }
}

TEST_CASE("answers that leave keys out bring the same bytes as answers that hold all") {
  TrainOptions options = compressedRun("topk:1"); // nothing is left out of pushes
  const TrainReport all = trainAll(makeRanks(3, "shm"), options);
  options.hook = "none";
  requireSame(trainAll(makeRanks(3, "tcp"), options), all);
  for (const char* consistency : {"bsp", "asp"}) {
    INFO(consistency);
    options.hook = "topk:0.02";
    options.momentum = 0; // keys without a gradient stay
    options.consistency = consistency;
    options.verify_every = 0;
    options.data = "synthetic:shape=1x8x8,train=600,test=20"; // an epoch of 15 steps: one meeting
    options.epochs = 1;
    const TrainReport sparse = trainAll(makeRanks(3), options);
    REQUIRE(sparse.pulled > 0);
    REQUIRE(sparse.pulled < 0.065); // three workers' 2% in each answer, and no more
    if (options.consistency != "bsp") continue;
    options.verify_every = 1; // meetings, at which all values travel, behind every step
    requireSame(trainAll(makeRanks(3), options), sparse);
  }
}

TEST_CASE("a run goes on with what its workers had kept back, on as many ranks only") {
  TemporaryFolder folder;
  TrainOptions options = compressedRun("topk:0.1");
  options.dedicated_servers = true;
  options.checkpoint = folder.file("whole");
  const TrainReport whole = trainAll(makeRanks(4), options);
  TrainOptions first = options;
  first.checkpoint = options.checkpoint = folder.file("part");
  first.steps = 2;
  trainAll(makeRanks(4), first);
  options.resume = true;
  auto three = makeRanks(3);
  const Thrown thrown = thrownByAll(three, [&](Communicator& comm) { train(comm, options); });
  REQUIRE(thrown.code == ErrorCode::invalid_argument);
  REQUIRE(contains(thrown.text, "4 ranks wrote it"));
  requireSame(trainAll(makeRanks(4), options), whole);
  REQUIRE((readRaw(folder.file("part")) == readRaw(folder.file("whole"))));
}

#endif

} // namespace rondo::test
