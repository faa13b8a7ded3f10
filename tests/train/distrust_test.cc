// A run verifies the numbers of a checkpoint even if its check sums are right, and verifies that
// all ranks still hold the same model.
#include <limits>

#include "support/data_files.h"
#include "support/forged.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/loop/trainer.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

using namespace training;

/// The parts of a run on one rank, as train() makes them, with values that a test can change.
struct Half {
  Half(Communicator& comm, const TrainOptions& options)
      : data(load(options)),
        strategy(strategyFor(options, comm.size()).make({comm, options, data})),
        tensors(strategy->snapshot().tensors) {}

  float& first(const std::string& name) const {
    for (const TensorMemory& one : tensors)
      if (one.label.name.starts_with(name)) return *static_cast<float*>(one.data);
    throw std::out_of_range(name);
  }

  Data data;
  std::unique_ptr<Strategy> strategy;
  std::vector<TensorMemory> tensors; ///< those of ddp are the memory that training uses
};

} // namespace

TEST_CASE("a checkpoint with an invalid position is refused, though its check sums are right") {
  TemporaryFolder folder;
  TrainOptions options = smallRun();
  options.files.checkpoint = folder.file("file");
  options.steps = 4;
  trainAll(makeRanks(2), options);
  const Bytes good = readRaw(options.files.checkpoint);
  options.files.resume = true;
  options.steps = 6;
  struct Forgery {
    std::string value;
    std::uint64_t number;
  };
  // The checkpoint is at epoch 2, step 1, total_steps 4. Names in the file are in alphabetical
  // order.
  const auto wild = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
  const std::vector<Forgery> forgeries = {{"step", 4'000'000},
                                          {"step", 2},
                                          {"step", 3},
                                          {"step", wild(-1)},
                                          {"epoch", 0},
                                          {"epoch", 1},
                                          {"epoch", std::uint64_t{1} << 32 | 2},
                                          {"epoch", wild(-1)},
                                          {"total_steps", wild(-5)},
                                          {"total_steps", 5},
                                          {"optimizer_steps", 5}};
  for (const auto& [value, number] : forgeries) {
    Bytes forged = good;
    // With its length before it: "step" is part of other names. A byte says the value's type.
    std::string word(8, '\0');
    word[0] = static_cast<char>(value.size());
    forge(forged, word + value, 1, number);
    writeRaw(options.files.checkpoint, forged);
    auto ranks = makeRanks(2);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    INFO(value << " " << number << ": " << thrown.text);
    REQUIRE(thrown.code == ErrorCode::data);
    REQUIRE(contains(thrown.text, options.files.checkpoint +
                                      (value == "optimizer_steps"
                                           ? ": has 5 optimizer steps for 4 "
                                           : ": has a position that is not in this run: ")));
  }
  writeRaw(options.files.checkpoint, good);
  REQUIRE(trainAll(makeRanks(2), options).steps == 6);
}

TEST_CASE("a rank with wrong parameters is found at the end of the run or before") {
  TrainOptions options = smallRun();
  for (int every : {0, 50})
    for (int steps : {1, 2, 3, 5}) {
      options.gradients.verify_every = every;
      options.steps = steps;
      auto ranks = makeRanks(3);
      const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
        TrainOptions own = options;
        const Half half(comm, own);
        own.stop = [&] { // called in every step
          if (comm.rank() == 1) half.first("weight.") += 1;
          return false;
        };
        Trainer(comm, own, half.data, *half.strategy, {}).run();
      });
      INFO(every << ", " << steps << ": " << thrown.text);
      REQUIRE(thrown.code == ErrorCode::mismatch);
      REQUIRE(thrown.culprit == 1);
    }
}

TEST_CASE(
    "a value that is not finite on one rank is an error on all, and no checkpoint is written") {
  TemporaryFolder folder;
  const TrainOptions options = smallRun();
  auto ranks = makeRanks(2);
  const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
    const Half half(comm, options);
    Position at;
    TrainReport report;
    if (comm.rank() == 1) half.first("optimizer.") = std::numeric_limits<float>::infinity();
    save(comm, folder.file("file"), {*half.strategy, at, report, "this run", 1});
  });
  REQUIRE(thrown.code == ErrorCode::aborted);
  REQUIRE(thrown.culprit == 1);
  REQUIRE(!std::filesystem::exists(folder.file("file")));
}

#endif

} // namespace rondo::test
