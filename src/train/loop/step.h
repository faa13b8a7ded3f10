// One training step: micro-batches forward and back, their gradients reduced meanwhile, then the
// optimizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rondo/gradients.h"
#include "rondo/train.h"
#include "train/data/loader.h"
#include "train/data/sampler.h"
#include "train/loop/replica.h"
#include "train/loop/stopwatch.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"

namespace rondo::training {

/// Where a run stands: the sampler's cursor.
struct Position {
  int epoch = 1;
  int step = 0;           ///< that are done in this epoch
  std::int64_t total = 0; ///< that are done over all epochs
  double losses = 0;      ///< sum over the epoch's steps
};

struct StepResult {
  double loss = 0;   ///< mean over the samples of all ranks
  bool stop = false; ///< some rank was asked to end
  double learning_rate = 0;
  TrainTimes times;
};

/// One thread. What is passed must live as long.
class Stepper {
 public:
  /// Collective, as run().
  Stepper(Communicator& comm, const TrainOptions& options, const Data& data, Replica& replica,
          std::int64_t total_steps);
  /// Where an exception has left a step it aborts the communicator, and returns when nothing of the
  /// step is on its way.
  ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// Of every epoch.
  int epochSteps() const { return static_cast<int>(sampler_.steps()); }

  /// The step behind those that are done. Throws Error(aborted) on all ranks, and leaves the
  /// weights alone, where the loss is not finite.
  /// Fills the timeline, if there is one.
  StepResult run(const Position& done, Timeline* timeline);

  Optimizer& optimizer() { return *optimizer_; }
  /// What the gradient hook keeps on this rank.
  std::vector<GradientHookArray> hookState();

 private:
  void computeGradients(const Position& done, StepClock& clock);
  Batch load(const Position& done);
  void addStatistics();
  void aim(bool first);
  void sendSums();
  void gradientStands(std::size_t weight);
  void showBuckets(Timeline& timeline) const;
  void requireFinite(const Position& done);
  void update(double learning_rate);

  Communicator& comm_;
  const TrainOptions& options_;
  Replica& replica_;
  const std::size_t parts_; ///< micro-batches of a step, all ranks
  Sampler sampler_;
  Loader loader_;
  const std::shared_ptr<GradientHook> hook_; ///< null: none
  GradientReducer reducer_;
  const std::unique_ptr<Optimizer> optimizer_;
  const Schedule schedule_;
  const Ready ready_;
  int micro_ = 0;                          ///< the micro-batch at work
  std::vector<AlignedVector<float>> part_; ///< gradients of a micro-batch behind the first
  AlignedVector<float> statistics_;        ///< sums of those that came before
  /// Over this rank's samples; over all ranks' when sent_ is done.
  struct Sums {
    double loss, stops;
  } sums_{};
  Work sent_, statistics_sent_;
  Clock::time_point reducing_; ///< when the reducer's step began
  std::string layer_;          ///< the first that gave what is not finite; "": none
};

} // namespace rondo::training
