// Compares the estimated noise of gradients with gradients whose mean and variance are known.
#include "train/optim/noise_scale.h"

#include <random>

#include "rondo/train.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/train/optim/weights.h"

namespace rondo::test {

TEST_CASE("means of few and of many samples give both the mean and the variance") {
  // With |mean|^2 = 4 and a trace of 10, the squared norm of a mean over n samples is 4 + 10 / n on
  // average.
  const training::GradientNoise exact = training::gradientNoise(4 + 10.0 / 8, 8, 4 + 0.1, 100);
  REQUIRE(close(exact.square, 4, 1e-12));
  REQUIRE(close(exact.variance, 10, 1e-12));
  REQUIRE(close(exact.scale(), 2.5, 1e-12));
  // Random gradients with 5 dimensions, mean 1 and deviation 3 in each, in batches of 4 parts of 8
  // samples.
  std::mt19937 random(1);
  std::normal_distribution<double> one(1, 3);
  training::GradientNoise sum;
  for (int step = 0; step < 4000; ++step) {
    double few = 0, many = 0;
    for (int dimension = 0; dimension < 5; ++dimension) {
      double whole = 0;
      for (int part = 0; part < 4; ++part) {
        double mean = 0;
        for (int sample = 0; sample < 8; ++sample) mean += one(random) / 8;
        few += mean * mean / 4;
        whole += mean / 4;
      }
      many += whole * whole;
    }
    sum += training::gradientNoise(few, 8, many, 32);
  }
  REQUIRE(close(sum.square / 4000, 5, 0.05));
  REQUIRE(close(sum.variance / 4000, 45, 0.05));
}

#ifdef RONDO_HAVE_DNNL

TEST_CASE("a run estimates the same noise on ranks as in micro-batches, and trains the same") {
  TrainOptions options = smallRun();
  const std::uint64_t hash = trainAll(makeRanks(4), options).parameter_hash;
  options.gradients.noise_scale = true;
  const TrainReport ranks = trainAll(makeRanks(4), options);
  REQUIRE(ranks.parameter_hash == hash);
  REQUIRE(ranks.epoch_noise_scale.size() == 2);
  options.accumulate = 4;
  const TrainReport parts = trainAll(makeRanks(1), options);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    INFO(ranks.epoch_noise_scale[epoch]);
    REQUIRE(ranks.epoch_noise_scale[epoch] > 0);
    REQUIRE(close(parts.epoch_noise_scale[epoch], ranks.epoch_noise_scale[epoch], 1e-9));
  }
  options.accumulate = 1;
  auto alone = makeRanks(1);
  const Thrown thrown = thrownByAll(alone, [&](Communicator& comm) { train(comm, options); });
  REQUIRE(contains(thrown.text, "ranks x accumulate is 1"));
}

#endif

} // namespace rondo::test
