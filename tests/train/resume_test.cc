// Tests checkpoints: a resumed run ends with the same bytes as one that was not interrupted.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

/// Two epochs of 3 steps each.
constexpr int kEpochs = 2, kSteps = 6;

TrainOptions savingRun(const std::string& file) {
  TrainOptions options = smallRun();
  options.epochs = kEpochs;
  options.files.checkpoint = file;
  return options;
}

/// Asks to stop after this many steps of the call, as Ctrl-C on this rank would.
std::function<bool()> stopAfter(int steps) {
  return [asked = 0, steps]() mutable { return ++asked >= steps; };
}

/// Trains while one rank asks to stop after `steps` steps.
TrainReport trainStopped(std::vector<Communicator> ranks, const TrainOptions& options, int steps) {
  TrainReport report;
  const int asked = static_cast<int>(ranks.size()) - 1;
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            TrainOptions own = options;
            if (comm.rank() == asked) own.stop = stopAfter(steps);
            const TrainReport got = train(comm, own);
            if (comm.rank() == 0) report = got;
            return got.stopped ? "" : "was not stopped";
          })) == "");
  return report;
}

struct Variant {
  std::string name;
  std::function<void(TrainOptions&)> make;
};
const std::vector<Variant> kVariants = {
    {"sgd", [](TrainOptions&) {}},
    {"adamw, augmented, cosine",
     [](TrainOptions& o) {
       o.optimizer.name = "adamw";
       o.optimizer.learning_rate = 0.002;
       o.augment = true;
       o.optimizer.schedule = "cosine";
       o.optimizer.warm_up = 2;
       o.optimizer.weight_decay = 0.01;
     }},
    {"lars, clipped", [](TrainOptions& o) { o.optimizer.name = "lars", o.optimizer.clip = 0.5; }},
    {"bf16", [](TrainOptions& o) { o.gradients.hook = "bf16"; }},
    {"top-k", [](TrainOptions& o) { o.gradients.hook = "topk:0.05"; }},
    {"PowerSGD", [](TrainOptions& o) { o.gradients.hook = "powersgd:2"; }}};

} // namespace

TEST_CASE("stopped at any step and resumed, a run ends with the same bytes") {
  TemporaryFolder folder;
  for (const Variant& variant : kVariants)
    for (int size : kWholeGrid ? std::vector<int>{1, 2, 3} : std::vector<int>{2}) {
      const bool deterministic = size == 2;
      TrainOptions options = savingRun(folder.file("whole"));
      variant.make(options);
      const TrainReport whole = trainAll(makeRanks(size, "inproc", deterministic), options);
      REQUIRE(whole.steps == kSteps);
      const Bytes expected = readRaw(folder.file("whole"));
      for (int stop = 1; stop < kSteps; stop += kWholeGrid ? 1 : 3) {
        INFO(variant.name << ", " << size << " ranks, stopped after step " << stop);
        options.files.checkpoint = folder.file("part");
        options.files.resume = false;
        const auto part = trainStopped(makeRanks(size, "inproc", deterministic), options, stop);
        REQUIRE(part.steps == stop);
        options.files.resume = true;
        const auto rest = trainAll(makeRanks(size, "inproc", deterministic), options);
        REQUIRE(rest.steps == kSteps);
        REQUIRE(!rest.stopped);
        requireSame(rest, whole);
        REQUIRE(rest.test_accuracy == whole.test_accuracy);
        REQUIRE((readRaw(folder.file("part")) == expected));
      }
    }
}

TEST_CASE("a checkpoint within a run equals that of a run which ends there") {
  TemporaryFolder folder;
  TrainOptions options = savingRun(folder.file("file"));
  options.files.checkpoint_every = 2;
  std::vector<Bytes> seen;
  const TrainReport whole = trainAll(makeRanks(2), options, [&](const TrainProgress& progress) {
    if (progress.total_step % 2 == 0) seen.push_back(readRaw(folder.file("file")));
  });
  REQUIRE(seen.size() == 3);
  options.files.resume = true;
  for (const Bytes& bytes : seen) {
    writeRaw(folder.file("file"), bytes);
    requireSame(trainAll(makeRanks(2), options), whole);
  }
}

TEST_CASE(
    "another number of ranks continues from a checkpoint, bit for bit if the split is the "
    "same") {
  TemporaryFolder folder;
  TrainOptions options = savingRun(folder.file("file"));
  options.accumulate = 3;
  const TrainReport whole = trainAll(makeRanks(1), options);
  trainStopped(makeRanks(1), options, 2);
  options.files.resume = true;
  options.accumulate = 1;
  requireSame(trainAll(makeRanks(3), options), whole);

  options.files.resume = false;
  trainStopped(makeRanks(3), options, 4);
  options.files.resume = true;
  options.accumulate = 41;
  auto ranks = makeRanks(2);
  const Thrown refused = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
  REQUIRE(refused.code == ErrorCode::invalid_argument);
  REQUIRE(contains(refused.text, "must be at least ranks x accumulate, 82"));
}

TEST_CASE("residuals of another number of ranks are refused with the name of the checkpoint") {
  TemporaryFolder folder;
  TrainOptions options = savingRun(folder.file("file"));
  options.gradients.hook = "topk:0.05";
  trainStopped(makeRanks(3), options, 2);
  options.files.resume = true;
  auto ranks = makeRanks(2);
  const Thrown refused = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
  REQUIRE(refused.code == ErrorCode::invalid_argument);
  REQUIRE(contains(refused.text, folder.file("file")));
  REQUIRE(contains(refused.text, "3 ranks"));
}

TEST_CASE("a checkpoint that is of another run, damaged or missing is refused on all ranks") {
  TemporaryFolder folder;
  const std::string file = folder.file("file");
  trainStopped(makeRanks(2), savingRun(file), 2);
  const Bytes good = readRaw(file);
  const auto refusal = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = savingRun(file);
    options.files.resume = true;
    change(options);
    auto ranks = makeRanks(2);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    INFO(thrown.text);
    REQUIRE(thrown.code == ErrorCode::data);
    REQUIRE(contains(thrown.text, file));
    return thrown.text;
  };
  REQUIRE(contains(refusal([](TrainOptions& o) { o.batch = 20; }),
                   "it has batch 40, this run has batch 20"));
  REQUIRE(contains(refusal([](TrainOptions& o) { o.seed = 7; }), "this run has seed 7"));
  REQUIRE(contains(refusal([](TrainOptions& o) { o.optimizer.name = "lars"; }), "optimizer lars"));
  REQUIRE(contains(refusal([](TrainOptions& o) { o.gradients.hook = "bf16"; }), "hook bf16"));
  REQUIRE(contains(refusal([](TrainOptions& o) { o.limit_samples = 90; }), "samples 90"));
  Bytes bad = good;
  bad[bad.size() / 2] ^= 1;
  writeRaw(file, bad);
  refusal([](TrainOptions&) {});
  writeRaw(file, Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(good.size() / 2)));
  refusal([](TrainOptions&) {});
  std::filesystem::remove(file);
  REQUIRE(contains(refusal([](TrainOptions&) {}), "No such file"));
}

TEST_CASE("a checkpoint that cannot be written is one error on all ranks") {
  TemporaryFolder folder;
  auto ranks = makeRanks(3);
  const Thrown thrown = thrownByAll(
      ranks, [&](Communicator& comm) { train(comm, savingRun(folder.file("no/such/folder"))); });
  REQUIRE(thrown.code == ErrorCode::system);
  REQUIRE(thrown.culprit == 0);
  REQUIRE(contains(thrown.text, folder.file("no/such/folder")));
}

TEST_CASE("a run resumed at its end gives the same report, and more steps continue it") {
  TemporaryFolder folder;
  TrainOptions options = savingRun(folder.file("file"));
  const TrainReport whole = trainAll(makeRanks(2), options);
  options.files.resume = true;
  const TrainReport again = trainAll(makeRanks(2), options);
  requireSame(again, whole);
  REQUIRE(again.test_accuracy == whole.test_accuracy);
  options.epochs = 3;
  const TrainReport more = trainAll(makeRanks(2), options);
  REQUIRE(more.steps == 9);
  TrainOptions straight = savingRun(folder.file("other"));
  straight.epochs = 3;
  requireSame(trainAll(makeRanks(2), straight), more);
}

TEST_CASE("--steps ends anywhere in an epoch, with an evaluation") {
  TrainOptions options = smallRun();
  for (int steps : {1, 3, 4, 7}) {
    options.steps = steps;
    std::vector<TrainProgress> told;
    const TrainReport report = trainAll(
        makeRanks(2), options, [&](const TrainProgress& progress) { told.push_back(progress); });
    REQUIRE(report.steps == steps);
    REQUIRE(told.size() == static_cast<std::size_t>(steps));
    REQUIRE(told.back().total_step == steps);
    REQUIRE(told.back().test_accuracy == report.test_accuracy);
    REQUIRE(report.epoch_loss.size() == static_cast<std::size_t>(steps / 3));
    REQUIRE(report.times.step > 0);
  }
}

TEST_CASE("a run that is asked to stop in its last step counts as complete, not as stopped") {
  TrainOptions options = smallRun();
  for (int steps : {3, 4}) { // at the end of an epoch, and within one
    options.steps = steps;
    const TrainReport whole = trainAll(makeRanks(2), options);
    auto ranks = makeRanks(2);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              TrainOptions own = options;
              own.stop = stopAfter(steps);
              const TrainReport report = train(comm, own);
              if (report.test_accuracy != whole.test_accuracy) return "was not evaluated";
              return report.stopped || report.steps != steps ? "was stopped" : "";
            })) == "");
  }
}

TEST_CASE("values that are not finite end the run on all ranks, and no checkpoint is written") {
  TemporaryFolder folder;
  TrainOptions options = savingRun(folder.file("file"));
  const auto ends = [&](const std::string& first, const std::string& last) {
    auto ranks = makeRanks(2);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); });
    INFO(thrown.text);
    REQUIRE(thrown.code == ErrorCode::aborted);
    REQUIRE(contains(thrown.text, first));
    REQUIRE(contains(thrown.text, last));
    REQUIRE(!std::filesystem::exists(folder.file("file")));
    trainAll(std::move(ranks), smallRun()); // the communicators are still usable
  };
  options.optimizer.learning_rate = 1e4;
  ends("train: the loss of step ",
       " is not finite; the first values of that kind come from layer ");
  options.optimizer.learning_rate = std::numeric_limits<double>::max();
  // So that the loss of a next step cannot report it first.
  const auto steps = std::exchange(options.steps, 1);
  ends("train: after step 1 of epoch 1: the values of ", ".weight are not finite");
  options.steps = steps;
  options.files.checkpoint_every = 1;
  ends("train: after step 1 weight.", " is not finite: no checkpoint is written");
}

#endif

} // namespace rondo::test
