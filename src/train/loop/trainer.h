// The training loop of one rank: epochs, evaluation, checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rondo/train.h"
#include "train/loop/observer.h"
#include "train/loop/resume.h"
#include "train/loop/settings.h"
#include "train/loop/stopwatch.h"
#include "train/loop/straggler.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

using Progress = std::function<void(const TrainProgress&)>;

class Trainer {
 public:
  /// Collective, like run(). The arguments must outlive the trainer.
  Trainer(Communicator& comm, const TrainOptions& options, const Data& data, Strategy& strategy,
          const Progress& progress);

  TrainReport run();

 private:
  void runStep(const Stopwatch& since, int done_before);
  void meet(TrainProgress& now, double seconds);
  void endEpoch(TrainProgress& now, double seconds);
  void verifyIfDue(const TrainProgress& now);
  void saveIfDue();
  std::int64_t meeting() const;
  double samples(std::int64_t begin, std::int64_t end) const;
  bool over() const;
  double idle();
  Running running();

  Communicator& comm_;
  const TrainOptions& options_;
  const Data& data_;
  const Progress& progress_;
  const std::string identity_;
  const int epoch_steps_;
  const std::int64_t total_steps_;
  Strategy& strategy_;
  Straggler straggler_;
  Observer observer_;
  TrainReport report_;
  Position at_;
  std::vector<TrainTimes> times_;
  GradientNoise noise_; ///< sum over the steps of this call in the current epoch
};

} // namespace rondo::training
