// Runs that continue from a file, under the same strategy or another.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "support/data_files.h"
#include "support/runs.h"
#include "support/test.h"

namespace rondo::test {

/// A checkpoint after a number of steps, and runs that continue from it. The functions set the file
/// and the number of steps in the options.
class SavedRun {
 public:
  SavedRun(int ranks, TrainOptions options, int steps) {
    options.files.checkpoint = file();
    options.steps = steps;
    report_ = trainAll(makeRanks(ranks), options);
    bytes_ = readRaw(file());
  }

  const TrainReport& report() const { return report_; }
  /// Continues from the first checkpoint, up to step `steps`, or to the end if it is 0.
  TrainReport goOn(int ranks, const TrainOptions& options, int steps = 0) {
    writeRaw(file(), bytes_);
    return goFurther(ranks, options, steps);
  }
  /// Continues from the checkpoint of the last run.
  TrainReport goFurther(int ranks, TrainOptions options, int steps = 0) {
    options.files.checkpoint = file();
    options.files.resume = true;
    options.steps = steps;
    return trainAll(makeRanks(ranks), options);
  }

 private:
  std::string file() const { return folder_.file("file"); }

  TemporaryFolder folder_;
  TrainReport report_;
  std::vector<std::uint8_t> bytes_;
};

/// Compares the losses of the epoch in which a run was continued.
inline void requireCloseEnd(const TrainReport& a, const TrainReport& b, double share) {
  REQUIRE(std::abs(a.epoch_loss[1] - b.epoch_loss[1]) <= share * b.epoch_loss[1]);
}

/// Continues a run of one rank with these options on `ranks` ranks, and back on one rank: all
/// values, including the optimizer's, must be preserved bit for bit. Later steps reveal changes of
/// the optimizer state.
inline void requireThereAndBack(int ranks, TrainOptions there) {
  for (const std::string optimizer : {"sgd", "adamw"}) {
    INFO(optimizer << ", " << ranks << " ranks, mesh \"" << there.sharding.mesh << "\"");
    TrainOptions whole = smallRun();
    for (TrainOptions* options : {&whole, &there}) {
      options->optimizer.name = optimizer;
      options->optimizer.learning_rate = 0.002;
    }
    SavedRun saved(1, whole, 2);
    REQUIRE(saved.goOn(ranks, there, 2).parameter_hash == saved.report().parameter_hash);
    const TrainReport cut = saved.goFurther(ranks, there, 3);
    REQUIRE(saved.goFurther(1, whole, 3).parameter_hash == cut.parameter_hash);
    const TrainReport mixed = saved.goFurther(1, whole, 6);
    requireCloseEnd(mixed, saved.goOn(1, whole, 6), 1e-4);
  }
}

} // namespace rondo::test
