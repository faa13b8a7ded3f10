// The training loop of one rank: epochs, evaluation, checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rondo/train.h"
#include "train/loop/elastic.h"
#include "train/loop/held.h"
#include "train/loop/observer.h"
#include "train/loop/rebuild.h"
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
          const Progress& progress, ElasticRanks* elastic = nullptr);

  /// Begins or continues the run. In an elastic run it begins with what ranks hold, and returns
  /// before the end (paused()) where ranks are to join. Empties `held` when this rank has the
  /// state.
  TrainReport run(Held& held);
  TrainReport run() {
    Held nothing;
    return run(nothing);
  }
  bool paused() const { return paused_; }
  /// Whether this rank has a part of the state of the run: if so, hold() returns it, also after an
  /// error.
  bool begun() const { return begun_; }
  Held hold(bool after_error);

 private:
  bool begin(const Held& held);
  bool goOn(const Held& held);
  bool returnTo(const Rebuilt& lost);
  void say(const std::string& recovery);
  void awaitRanks();
  void renewCopies(const Position& before, TrainTimes& times);
  void runStep(const Stopwatch& since, int done_before);
  void meet(TrainProgress& now, double seconds);
  void endEpoch(TrainProgress& now, double seconds);
  void verifyIfDue(const TrainProgress& now);
  void saveIfDue();
  std::int64_t meeting() const;
  double samples(std::int64_t begin, std::int64_t end) const;
  double epochLoss() const;
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
  ElasticRanks* const elastic_; ///< null: the run is not elastic
  bool begun_ = false, paused_ = false;
  bool sharded_ = false;
  std::optional<Copies> copies_; ///< of shards, with redundancy 1
  std::int32_t changes_ = 0;     ///< of the ranks so far
  std::int64_t saved_ = -1;      ///< step of the last checkpoint; -1: there is none
  std::string recovery_;         ///< TrainProgress::recovery of the next step
  TrainReport report_;
  Position at_;
  StepTimes times_;     ///< of this call
  GradientNoise noise_; ///< sum over the steps of this call in the current epoch
};

} // namespace rondo::training
