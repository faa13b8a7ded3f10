// A strategy is how the ranks train one model together: what stands behind the trainer, which
// knows no strategy by name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/train.h"
#include "train/data/dataset.h"
#include "train/loop/checkpoint.h"
#include "train/loop/stopwatch.h"
#include "train/optim/noise_scale.h"

namespace rondo::training {

/// Where a run stands: the sampler's cursor. A step is one global batch.
struct Position {
  int epoch = 1;
  int step = 0;           ///< that are done in this epoch
  std::int64_t total = 0; ///< that are done over all epochs
  double losses = 0;      ///< sum over the epoch's steps, a shorter one's by its share of a batch
};

struct StepResult {
  Position at;       ///< where the run stands now, as far as this rank knows
  bool met = true;   ///< all ranks stand there, and nothing is on its way
  double loss = 0;   ///< mean over the samples of all ranks, as far as this rank knows
  bool stop = false; ///< some rank was asked to end; said at a meeting
  double learning_rate = 0;
  GradientNoise noise; ///< with TrainOptions::noise_scale
  TrainTimes times;
};

/// The position one step behind `done`, whose mean loss was `loss` over such a share of a batch.
inline Position after(Position done, double loss, double share = 1) {
  ++done.step;
  ++done.total;
  done.losses += loss * share;
  return done;
}

/// What a checkpoint holds of a strategy. The memory is the strategy's, good until its next call.
struct Snapshot {
  /// On rank 0 all that the run consists of, which is what is written; on other ranks those that
  /// they hold too, to be looked at only. Weights are called "weight.NAME", running statistics
  /// "state.NAME", what the optimizer keeps "optimizer.NAME", each whole and of the shape that one
  /// rank gives it: such a run may go on under another strategy, or on other ranks.
  std::vector<TensorMemory> tensors;
  /// Other than 0: each of so many ranks keeps something of its own, so no other number goes on.
  int ranks = 0;
  int updates = 1; ///< steps of the optimizer in one step of the run
};

/// One rank's half. One thread a rank calls it (a strategy may have threads of its own).
///
/// The trainer calls run() until the run stands at a *meeting*, where all ranks are at the same
/// place and nothing is on its way; only there it calls the other functions, on all ranks in the
/// same order. Strategies that keep step are at a meeting behind every step. Others let ranks run
/// ahead, each with as many calls as it likes, but no further than the meeting that they are told:
/// what that is for (evaluation, verification, a checkpoint) is none of their business.
///
/// Errors: those that ranks find together are the same on all of them; a rank that fails alone
/// leaves nobody waiting, as it ends the communicator when it is destroyed within a step.
class Strategy {
 public:
  virtual ~Strategy() = default;
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// Takes this rank's part in what comes behind `done`, and returns when it has news: for
  /// strategies that keep step, that is the next step. Never passes the meeting, which is a number
  /// of total steps above done.total; all ranks are told the same one. Throws Error(aborted) on all
  /// ranks where the loss is not finite. Fills the timeline, if there is one.
  virtual StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) = 0;

  /// Collective. The hash of all values, equal on all ranks: where a rank holds them all it is
  /// Replica::hash(), so that strategies can be compared. Throws Error(mismatch), beginning with
  /// `when`, where ranks hold different values that should be equal, Error(aborted) for values that
  /// are not finite.
  virtual std::uint64_t verify(const std::string& when) = 0;
  /// Collective. The share of the test samples that the model as it stands gets right.
  virtual double evaluate() = 0;

  /// Collective. All that the next step depends on, but for the position.
  virtual Snapshot snapshot() = 0;
  /// Collective, behind snapshot(), whose tensors on rank 0 have been given other values: every
  /// rank takes over its part, and goes on from this position.
  virtual void adopt(const Position& at) = 0;

  /// Bytes that all ranks together send in one step, by the formula at the head of the strategy's
  /// file; without loss, stop flag, statistics of batch norms, norms and headers, and for
  /// collectives by an algorithm that sends no more than needed.
  virtual double bytesPerStep() const = 0;
  /// Collective, once, at the end: adds what only this strategy can tell. Every rank the same.
  virtual void tell(TrainReport&) {}
};

/// What a strategy is made of; all of it must live as long. All ranks have the same options and
/// data.
struct Setup {
  Communicator& comm;
  const TrainOptions& options;
  const Data& data;
};

/// A line of strategies.def.
struct StrategyKind {
  std::string_view name, summary;
  /// Those of the options in registry.cc that it can honour: others are refused by name.
  std::vector<std::string_view> takes;
  /// Throws Error(invalid_argument) for values of options that make no sense together, or on so
  /// many ranks. The same on all ranks.
  void (*check)(const TrainOptions& options, int ranks);
  /// Collective. What can go wrong on one rank alone is said inside agree().
  std::unique_ptr<Strategy> (*make)(const Setup& setup);
  /// What each rank computes, sends and receives in one step, in its order, as text. Null: the
  /// strategy has no such plan.
  std::string (*show)(const TrainOptions& options, const Dataset& samples, int ranks) = nullptr;
};

std::span<const StrategyKind* const> strategies();

/// The one of options.strategy. Throws Error(invalid_argument): for a name that is not there, with
/// those that are; for an option that it does not take, with the strategies that do; and as its
/// check().
const StrategyKind& strategyFor(const TrainOptions& options, int ranks);

} // namespace rondo::training
