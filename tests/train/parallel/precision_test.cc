// Tests that --precision reaches the layers of every strategy, and that a processor without the
// precision gives one error.
#include "support/bfloat16.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

std::vector<double> lossesIn(const std::string& precision, const std::string& strategy,
                             const std::string& model, const std::string& mesh = "") {
  TrainOptions options = smallRun();
  options.model = model;
  options.strategy = strategy;
  options.sharding.mesh = mesh;
  options.precision = precision;
  options.epochs = 1;
  std::vector<double> losses;
  trainAll(makeRanks(mesh.empty() ? 2 : 4), options,
           [&](const TrainProgress& progress) { losses.push_back(progress.loss); });
  return losses;
}

/// Equal except for rounding, and not identical.
void requireNear(const std::vector<double>& narrow, const std::vector<double>& floats) {
  REQUIRE(floats.size() == narrow.size());
  for (std::size_t step = 0; step < floats.size(); ++step) {
    INFO("step " << step + 1);
    CHECK(narrow[step] != floats[step]);
    CHECK(narrow[step] == Approx(floats[step]).epsilon(0.02));
  }
}

} // namespace

TEST_CASE("every strategy trains in bfloat16, with the losses of float32 except for rounding",
          "[sums]") {
  if (!hasBfloat16()) return;
  for (const std::string model : {"mlp", "cnn"}) {
    const auto wanted = lossesIn("bfloat16", "ddp", model);
    for (const TrainChoice& strategy : trainStrategies()) {
      INFO(model << ", " << strategy.name);
      const auto narrow = lossesIn("bfloat16", strategy.name, model);
      requireNear(narrow, lossesIn("float32", strategy.name, model));
      const bool sharded = strategy.name.starts_with("zero") || strategy.name == "fsdp";
      if (sharded) CHECK(narrow == wanted);
    }
  }
}

TEST_CASE("pipeline stages of several ranks train in bfloat16 too") {
  if (!hasBfloat16()) return;
  const auto run = [](const std::string& precision) {
    return lossesIn(precision, "pipeline", "cnn", "pipe=2,tensor=2");
  };
  requireNear(run("bfloat16"), run("float32"));
}

TEST_CASE("ranks with different precisions get a mismatch error that quotes them") {
  if (!hasBfloat16()) return;
  auto ranks = makeRanks(2);
  const Thrown thrown = thrownByAll(ranks, [](Communicator& comm) {
    TrainOptions options = smallRun();
    if (comm.rank() == 1) options.precision = "bfloat16";
    train(comm, options);
  });
  CHECK(thrown.code == ErrorCode::mismatch);
  CHECK(contains(thrown.text, "rank 1 has precision bfloat16"));
}

TEST_CASE("an unknown precision is refused with a list of the valid ones") {
  auto ranks = makeRanks(2);
  const Thrown thrown = thrownByAll(ranks, [](Communicator& comm) {
    TrainOptions options = smallRun();
    options.precision = "half";
    train(comm, options);
  });
  CHECK(thrown.code == ErrorCode::invalid_argument);
  CHECK(contains(thrown.text, "precision \"half\"; valid: float32, bfloat16"));
}

TEST_CASE("an unknown or unsupported precision is refused before training starts") {
  const std::string train = "$RONDO train -p 2 --data synthetic --steps 2 --precision ";
  const Outcome unknown = shell(train + "float8");
  CHECK(unknown.status != 0);
  CHECK(contains(unknown.err, "float8"));
  CHECK(contains(unknown.err, "bfloat16"));
  // This variable of oneDNN simulates a processor without the instructions.
  const Outcome old = shell("ONEDNN_MAX_CPU_ISA=AVX2 " + train + "bfloat16");
  INFO(old.err);
  CHECK(old.status == 3);
  CHECK(linesOf(old.err).size() == 1);
  CHECK(contains(old.err, "precision bfloat16: this processor has no instructions for it"));
}

#endif

} // namespace rondo::test
