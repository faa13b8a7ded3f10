// Runs one step of a strategy and returns the timeline of each rank.
#pragma once

#include <vector>

#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/loop/compute_threads.h"
#include "train/loop/settings.h"
#include "train/parallel/strategy.h"

namespace rondo::test {

struct OneStep {
  training::Timeline timeline; ///< all ranks use the same clock
  TrainTimes times;
};

/// One entry for each rank.
inline std::vector<OneStep> oneStep(int ranks, const TrainOptions& options) {
  std::vector<OneStep> steps(static_cast<std::size_t>(ranks));
  auto comms = makeRanks(ranks);
  REQUIRE(firstComplaint(onRanks(comms, [&](Communicator& comm) -> std::string {
            const training::ComputeThreads threads;
            const training::Data data = training::load(options);
            const auto strategy =
                training::strategyFor(options, comm.size()).make({comm, options, data});
            OneStep& step = steps[static_cast<std::size_t>(comm.rank())];
            step.times = strategy->run({}, 1, &step.timeline).times;
            return {};
          })) == "");
  return steps;
}

} // namespace rondo::test
