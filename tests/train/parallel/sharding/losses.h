// Runs whose losses tests compare.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

/// A pipeline on a mesh, with two micro-batches and several buckets.
inline TrainOptions meshRun(const std::string& mesh) {
  TrainOptions options = smallRun();
  options.strategy = "pipeline";
  options.sharding.mesh = mesh;
  options.accumulate = 2;
  options.gradients.bucket_bytes = {10'000};
  return options;
}

/// The loss of each step; with `wrong`, followed by the fraction of wrongly classified test
/// samples.
inline std::vector<double> lossesOf(int ranks, const TrainOptions& options, bool wrong = false) {
  std::vector<double> losses;
  const TrainReport report =
      trainAll(makeRanks(ranks), options,
               [&](const TrainProgress& progress) { losses.push_back(progress.loss); });
  if (wrong) losses.push_back(1 - report.test_accuracy);
  return losses;
}

/// Requires equality except for rounding.
inline void requireClose(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t step = 0; step < a.size(); ++step) {
    INFO("step " << step + 1);
    REQUIRE(std::abs(a[step] - b[step]) <= 1e-5 * std::abs(a[step]));
  }
}

} // namespace rondo::test
