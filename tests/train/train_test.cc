// Tests training over ranks: the same bits for every split, agreement between ranks, errors on all.
#include <algorithm>
#include <cmath>
#include <limits>

#include "rondo/train.h"
#include "support/data_files.h"
#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/loop/agreement.h"

namespace rondo::test {
TEST_CASE("an error while preparing is the same error on every rank, and names the rank") {
  for (int size : {1, 2, 3, 5})
    for (int bad = 0; bad < size; ++bad) {
      auto ranks = makeRanks(size);
      const Thrown thrown = thrownByAll(ranks, [bad](Communicator& comm) {
        training::agree(comm, [&]() -> std::string {
          if (comm.rank() == bad) throw Error(ErrorCode::data, "file x is cut");
          return "batch 1";
        });
      });
      INFO(size << " ranks, bad one " << bad);
      REQUIRE(thrown.code == ErrorCode::data);
      REQUIRE(thrown.culprit == (size == 1 ? -1 : bad));
      REQUIRE(thrown.text ==
              (size == 1 ? "" : "rank " + std::to_string(bad) + ": ") + "file x is cut");
    }
  auto ranks = makeRanks(3);
  const Thrown thrown = thrownByAll(ranks, [](Communicator& comm) {
    training::agree(comm, []() -> std::string { throw Error(ErrorCode::data, "no file x"); });
  });
  REQUIRE(thrown == Thrown{ErrorCode::data, "no file x", -1});
}

TEST_CASE("an error for different settings quotes them") {
  for (int size : {2, 3, 5})
    for (int other = 1; other < size; ++other) {
      auto ranks = makeRanks(size);
      const Thrown thrown = thrownByAll(ranks, [other](Communicator& comm) {
        training::agree(
            comm, [&]() -> std::string { return comm.rank() == other ? "a 1\nb 3" : "a 1\nb 2"; });
      });
      REQUIRE(thrown.code == ErrorCode::mismatch);
      REQUIRE(thrown.culprit == other);
      REQUIRE(contains(thrown.text, "rank 0 has b 2, rank " + std::to_string(other) + " has b 3"));
    }
}

TEST_CASE("ranks whose long settings differ only at their end do not train together") {
  auto ranks = makeRanks(3);
  const Thrown thrown = thrownByAll(ranks, [](Communicator& comm) {
    training::agree(comm, [&]() -> std::string {
      return std::string(5000, 'a') + (comm.rank() == 2 ? "\nb 3" : "\nb 2");
    });
  });
  REQUIRE(thrown.code == ErrorCode::mismatch);
  REQUIRE(thrown.culprit == 2);
  REQUIRE(contains(thrown.text,
                   "rank 0 and rank 2 have different settings after the first 4083 bytes"));
}

TEST_CASE("a rank whose parameters differ is found on all ranks") {
  for (int size : {2, 3, 5})
    for (int odd = 0; odd < size; ++odd) {
      auto ranks = makeRanks(size);
      const Thrown thrown = thrownByAll(ranks, [odd](Communicator& comm) {
        training::compareHashes(comm, 7, "before");
        training::compareHashes(comm, comm.rank() == odd ? 0xabc : 7, "after step 3");
      });
      INFO(size << " ranks, " << odd << " differs: " << thrown.text);
      REQUIRE(thrown.code == ErrorCode::mismatch);
      REQUIRE(contains(thrown.text, "after step 3"));
      REQUIRE(contains(thrown.text, "rank " + std::to_string(odd) + " 0000000000000abc"));
      REQUIRE(thrown.culprit == (size == 2 ? -1 : odd));
    }
}

#ifdef RONDO_HAVE_DNNL

namespace {

TrainOptions small(const TemporaryFolder& folder) {
  TrainOptions options = smallRun();
  options.data = folder.path();
  return options;
}

} // namespace

TEST_CASE("N ranks train bit for bit as one rank with N micro-batches") {
  TemporaryFolder folder;
  writeDataset(folder, 130, 300); // 40 does not divide 130, and the last test batch is incomplete
  for (int split : {1, 2, 3, 4, 5, 8}) { // 3 does not divide a batch of 40
    TrainOptions options = small(folder);
    options.accumulate = split;
    const TrainReport expected = trainAll(makeRanks(1), options);
    options.accumulate = 1;
    for (const std::string transport : {"inproc", "tcp"}) {
      INFO(split << " ranks on " << transport);
      requireSame(trainAll(makeRanks(split, transport), options), expected);
    }
  }
}

TEST_CASE("other splits of the same micro-batches agree except for rounding") {
  TemporaryFolder folder;
  writeDataset(folder, 120, 100);
  TrainOptions options = small(folder);
  options.accumulate = 4;
  const TrainReport expected = trainAll(makeRanks(1), options);
  options.accumulate = 2;
  const TrainReport other = trainAll(makeRanks(2), options);
  REQUIRE(other.epoch_loss.size() == expected.epoch_loss.size());
  for (std::size_t epoch = 0; epoch < expected.epoch_loss.size(); ++epoch)
    REQUIRE(std::abs(other.epoch_loss[epoch] - expected.epoch_loss[epoch]) < 1e-4);
}

TEST_CASE("two runs give the same bits, deterministic or not, and another seed gives others") {
  TemporaryFolder folder;
  writeDataset(folder, 130, 100);
  for (bool deterministic : {true, false}) {
    TrainOptions options = small(folder);
    const TrainReport first = trainAll(makeRanks(2, "inproc", deterministic), options);
    requireSame(trainAll(makeRanks(2, "inproc", deterministic), options), first);
    options.seed = 2;
    REQUIRE(trainAll(makeRanks(2, "inproc", deterministic), options).parameter_hash !=
            first.parameter_hash);
  }
}

TEST_CASE("training learns data that can be learnt") {
  TemporaryFolder folder;
  writeDataset(folder, 400, 150);
  TrainOptions options = small(folder);
  options.epochs = 4;
  for (int every : {0, 1, 7}) {
    options.gradients.verify_every = every;
    const TrainReport report = trainAll(makeRanks(2), options);
    REQUIRE(report.epoch_loss.size() == 4);
    REQUIRE(report.epoch_loss.front() < 2.5); // ten classes give 2.3 before anything is learnt
    REQUIRE(report.epoch_loss.back() < report.epoch_loss.front() / 4);
    REQUIRE(report.test_accuracy > 0.95);
  }
}

TEST_CASE("the limit keeps the first training samples only") {
  TemporaryFolder folder, cut;
  writeDataset(folder, 130, 100);
  writeDataset(cut, 90, 100);
  // The same test set, and the first 90 training samples.
  for (std::size_t file = 0; file < kDataFiles.size(); ++file) {
    Bytes content = readGzip(folder.file(kDataFiles[file]));
    if (file == 0) content.resize(16 + 90 * 784);
    if (file == 1) content.resize(8 + 90);
    if (file < 2) content[7] = 90;
    writeGzip(cut.file(kDataFiles[file]), content);
  }
  TrainOptions options = small(cut);
  const TrainReport expected = trainAll(makeRanks(1), options);
  options = small(folder);
  options.limit_samples = 90;
  requireSame(trainAll(makeRanks(1), options), expected);
}

TEST_CASE("progress is reported after every step, accuracy and mean loss after every epoch") {
  TemporaryFolder folder;
  writeDataset(folder, 130, 100);
  const TrainOptions options = small(folder);
  auto ranks = makeRanks(2);
  std::vector<std::vector<TrainProgress>> told(2);
  std::vector<TrainReport> reports(2);
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            const auto rank = static_cast<std::size_t>(comm.rank());
            reports[rank] = train(comm, options, [&, rank](const TrainProgress& progress) {
              told[rank].push_back(progress);
            });
            return {};
          })) == "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(told[rank].size() == 2 * 3);
    for (std::size_t i = 0; i < told[rank].size(); ++i) {
      const TrainProgress& progress = told[rank][i];
      REQUIRE(progress.epoch == static_cast<int>(i / 3) + 1);
      REQUIRE(progress.epochs == 2);
      REQUIRE(progress.step == static_cast<int>(i % 3) + 1);
      REQUIRE(progress.steps == 3);
      REQUIRE(progress.loss == told[0][i].loss);
      REQUIRE(progress.samples_per_second > 0);
      REQUIRE(progress.test_accuracy ==
              (progress.step == 3 ? reports[rank].epoch_accuracy[i / 3] : -1));
      REQUIRE(progress.epoch_loss == (progress.step == 3 ? reports[rank].epoch_loss[i / 3] : 0));
    }
  }
}

TEST_CASE("options that differ between ranks are Error(mismatch), which quotes them") {
  TemporaryFolder folder, other;
  writeDataset(folder, 130, 100);
  writeDataset(other, 130, 100, 2);
  const std::vector<Change> changes = {
      {"epochs 3", [](TrainOptions& o) { o.epochs = 3; }},
      {"batch 41", [](TrainOptions& o) { o.batch = 41; }},
      {"accumulate 2", [](TrainOptions& o) { o.accumulate = 2; }},
      {"learning_rate 0.5", [](TrainOptions& o) { o.optimizer.learning_rate = 0.5; }},
      {"momentum 0.5", [](TrainOptions& o) { o.optimizer.momentum = 0.5; }},
      {"seed 7", [](TrainOptions& o) { o.seed = 7; }},
      {"limit_samples 99", [](TrainOptions& o) { o.limit_samples = 99; }},
      {"optimizer lars", [](TrainOptions& o) { o.optimizer.name = "lars"; }},
      {"hook bf16", [](TrainOptions& o) { o.gradients.hook = "bf16"; }},
      {"report or trace yes", [](TrainOptions& o) { o.files.trace = "/dev/null"; }},
      {"sync_batch_norm yes", [](TrainOptions& o) { o.sync_batch_norm = true; }},
      {"overlap no", [](TrainOptions& o) { o.gradients.overlap = false; }},
      {"groups 2", [](TrainOptions& o) { o.gradients.groups = 2; }},
      {"bucket_bytes 7", [](TrainOptions& o) { o.gradients.bucket_bytes = {7}; }},
      {"verify_every 0", [](TrainOptions& o) { o.gradients.verify_every = 0; }},
      {"training samples 130", [&](TrainOptions& o) { o.data = other.path(); }}};
  for (const Change& change : changes) {
    auto ranks = makeRanks(3);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
      TrainOptions options = small(folder);
      if (comm.rank() == 2) change.make(options);
      train(comm, options);
    });
    INFO(change.name << ": " << thrown.text);
    REQUIRE(thrown.code == ErrorCode::mismatch);
    REQUIRE(thrown.culprit == 2);
    REQUIRE(contains(thrown.text, "rank 2 has " + change.name));
  }
}

TEST_CASE("invalid options are refused, and the communicator stays usable") {
  TemporaryFolder folder;
  writeDataset(folder, 130, 100);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Change> changes = {
      {"model \"lenet\"; valid: mlp", [](TrainOptions& o) { o.model = "lenet"; }},
      {"optimizer \"adagrad\"", [](TrainOptions& o) { o.optimizer.name = "adagrad"; }},
      {"schedule \"linear\"", [](TrainOptions& o) { o.optimizer.schedule = "linear"; }},
      {"hook \"topk\"; valid: none, fp16, bf16, topk:DENSITY, powersgd:RANK",
       [](TrainOptions& o) { o.gradients.hook = "topk"; }},
      {"hook \"fp16:2\"", [](TrainOptions& o) { o.gradients.hook = "fp16:2"; }},
      {"hook \"topk:x\"", [](TrainOptions& o) { o.gradients.hook = "topk:x"; }},
      {"hook \"powersgd:2.5\"", [](TrainOptions& o) { o.gradients.hook = "powersgd:2.5"; }},
      {"density 2", [](TrainOptions& o) { o.gradients.hook = "topk:2"; }},
      {"rank 0", [](TrainOptions& o) { o.gradients.hook = "powersgd:0"; }},
      {"device \"tpu\"", [](TrainOptions& o) { o.device = "tpu"; }},
      {"nesterov is for optimizer sgd, not lars",
       [](TrainOptions& o) { o.optimizer.name = "lars", o.optimizer.nesterov = true; }},
      {"base_batch is -1", [](TrainOptions& o) { o.optimizer.base_batch = -1; }},
      {"steps is -1", [](TrainOptions& o) { o.steps = -1; }},
      {"warm_up is -1", [](TrainOptions& o) { o.optimizer.warm_up = -1; }},
      {"weight_decay is -1", [](TrainOptions& o) { o.optimizer.weight_decay = -1; }},
      {"clip is nan", [=](TrainOptions& o) { o.optimizer.clip = kNan; }},
      {"bucket_bytes is empty", [](TrainOptions& o) { o.gradients.bucket_bytes.clear(); }},
      {"resume needs checkpoint", [](TrainOptions& o) { o.files.resume = true; }},
      {"checkpoint_every needs checkpoint", [](TrainOptions& o) { o.files.checkpoint_every = 3; }},
      {"epochs is 0", [](TrainOptions& o) { o.epochs = 0; }},
      {"accumulate is 0", [](TrainOptions& o) { o.accumulate = 0; }},
      {"accumulate is -3", [](TrainOptions& o) { o.accumulate = -3; }},
      {"batch is 0", [](TrainOptions& o) { o.batch = 0; }},
      {"batch is 1, must be at least ranks x accumulate, 2", [](TrainOptions& o) { o.batch = 1; }},
      {"at least ranks x accumulate, 42", [](TrainOptions& o) { o.accumulate = 21; }},
      {"at least ranks x accumulate, 4294967294",
       [](TrainOptions& o) { o.accumulate = std::numeric_limits<int>::max(); }},
      {"only 130 training samples", [](TrainOptions& o) { o.batch = 131; }},
      {"only 10 training samples", [](TrainOptions& o) { o.limit_samples = 10; }},
      {"learning_rate is -1", [](TrainOptions& o) { o.optimizer.learning_rate = -1; }},
      {"learning_rate is nan", [=](TrainOptions& o) { o.optimizer.learning_rate = kNan; }},
      {"learning_rate is inf", [](TrainOptions& o) { o.optimizer.learning_rate = HUGE_VAL; }},
      {"verify_every is -1", [](TrainOptions& o) { o.gradients.verify_every = -1; }},
      {"momentum is 1.5", [](TrainOptions& o) { o.optimizer.momentum = 1.5; }},
      {"momentum is nan", [=](TrainOptions& o) { o.optimizer.momentum = kNan; }}};
  auto ranks = makeRanks(2);
  requireRefused(ranks, small(folder), changes);
  trainAll(std::move(ranks), small(folder));
}

TEST_CASE("options of the optimizer that would change nothing are refused") {
  const auto refusal = [](const TrainOptions& options) -> std::string {
    try {
      requireTrainOptions(options, 2);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  TrainOptions options = smallRun();
  options.optimizer.scaling = "sqrt";
  CHECK(refusal(options) ==
        "train: scaling is sqrt, but without base_batch (--scale-lr) the learning rate is not "
        "scaled");
  options.optimizer.base_batch = 40;
  CHECK(refusal(options) == "");
  options.optimizer.name = "adamw";
  CHECK(refusal(options) == "");
  options.optimizer.momentum = 0.5;
  CHECK(refusal(options) == "train: momentum is for optimizers sgd and lars, not adamw");
}

TEST_CASE("two of checkpoint, metrics and trace must not be the same file") {
  auto ranks = makeRanks(2);
  const auto refusal = [&](std::string TrainOptions::Files::*first,
                           std::string TrainOptions::Files::*second) {
    TrainOptions options = smallRun();
    options.files.*first = options.files.*second = "one";
    return thrownByAll(ranks, [&](Communicator& comm) { train(comm, options); }).text;
  };
  CHECK(refusal(&TrainOptions::Files::checkpoint, &TrainOptions::Files::metrics) ==
        "train: checkpoint and metrics name the same file: one");
  CHECK(refusal(&TrainOptions::Files::trace, &TrainOptions::Files::metrics) ==
        "train: metrics and trace name the same file: one");
}

TEST_CASE("an unknown strategy is refused with a list of the known ones") {
  auto ranks = makeRanks(3);
  const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
    TrainOptions options = smallRun();
    options.strategy = "fast";
    train(comm, options);
  });
  REQUIRE(thrown.code == ErrorCode::invalid_argument);
  REQUIRE(contains(thrown.text, "strategy \"fast\"; valid: ddp"));
}

TEST_CASE("a file that is missing on one rank stops all ranks, and communicators stay usable") {
  TemporaryFolder folder, broken;
  writeDataset(folder, 130, 100);
  writeDataset(broken, 130, 100);
  const std::string compressed = broken.file(kDataFiles[1]);
  const std::string path = compressed.substr(0, compressed.rfind(".gz"));
  std::filesystem::remove(compressed);
  for (int bad : {0, 1, 2}) {
    auto ranks = makeRanks(3);
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
      train(comm, small(comm.rank() == bad ? broken : folder));
    });
    REQUIRE(thrown.code == ErrorCode::data);
    REQUIRE(thrown.culprit == bad);
    REQUIRE(contains(thrown.text, "rank " + std::to_string(bad) + ": " + path + ": No such file"));
    REQUIRE(contains(thrown.text, kDataFiles[1])); // also looked for
    trainAll(std::move(ranks), small(folder));
  }
}

#else

TEST_CASE("a build without oneDNN says what is missing") {
  auto ranks = makeRanks(2);
  const Thrown thrown = thrownByAll(ranks, [](Communicator& comm) { train(comm, smallRun()); });
  REQUIRE(thrown.code == ErrorCode::unsupported);
  REQUIRE(contains(thrown.text, "device cpu: not built"));
}

#endif

} // namespace rondo::test
