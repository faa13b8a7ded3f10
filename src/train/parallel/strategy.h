// Interface of strategies: how the ranks train one model together. The trainer knows no strategy by
// name.
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

/// How far a run is: the sampler's cursor. A step is one global batch.
struct Position {
  int epoch = 1;
  int step = 0;           ///< steps done in this epoch
  std::int64_t total = 0; ///< steps done over all epochs
  /// Sum of the losses of the epoch's steps; a smaller batch counts by its share of a full one.
  double losses = 0;
};

struct StepResult {
  Position at;       ///< how far the run is, as far as this rank knows
  bool met = true;   ///< all ranks are at a synchronization point at `at`
  double loss = 0;   ///< mean over the samples of all ranks, as far as this rank knows
  bool stop = false; ///< a rank was asked to stop; set at synchronization points only
  double learning_rate = 0;
  GradientNoise noise; ///< with TrainOptions::gradients.noise_scale
  TrainTimes times;
};

/// The position one step after `done`. The step had mean loss `loss` over `share` of a full batch.
inline Position after(Position done, double loss, double share = 1) {
  ++done.step;
  ++done.total;
  done.losses += loss * share;
  return done;
}

/// The part of a checkpoint that a strategy provides. The strategy owns the memory, which is valid
/// until its next call.
struct Snapshot {
  /// On rank 0 the whole state of the run: this is written. On other ranks the tensors that they
  /// also hold, for reading only. Weights are called "weight.NAME", running statistics
  /// "state.NAME", optimizer arrays "optimizer.NAME". Each is whole and has the shape that it has
  /// on one rank, so that the run can continue under another strategy or on another number of
  /// ranks.
  std::vector<TensorMemory> tensors;
  /// If not 0, each of this many ranks saves state of its own: the run can continue only on this
  /// number of ranks, or, if `means`, by adoptShared().
  int ranks = 0;
  bool means = false; ///< the tensors that are not of single ranks are means over the ranks
  int updates = 1;    ///< optimizer steps in one step of the run
};

/// A part of a tensor of the state, in the memory of one rank: the elements from `first` on of the
/// tensor that snapshots call `name`.
struct StatePart {
  std::string name;
  std::size_t first = 0;
  std::span<float> values;
};

/// One rank's part of a strategy. One thread per rank calls it (a strategy may have threads of its
/// own).
///
/// The trainer calls run() until the run is at a *synchronization point* (parameter `meeting`): all
/// ranks are at the same step, and nothing is in flight. Only there it calls the other collective
/// functions, on all ranks in the same order. Synchronous strategies are at a synchronization point
/// after every step. Others let ranks run ahead of each other, each with any number of calls to
/// run(), but no further than the next synchronization point. A strategy does not know what that
/// point is for (evaluation, verification, a checkpoint).
///
/// Errors: an error that ranks find together is the same on all of them. A rank that fails alone
/// leaves no rank waiting: destroying its strategy within a step aborts the communicator.
class Strategy {
 public:
  virtual ~Strategy() = default;
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// Does this rank's part of the work after `done`, and returns when the position has changed: for
  /// synchronous strategies after one step. Never goes beyond `meeting`, the next synchronization
  /// point: a total number of steps, greater than done.total and the same on all ranks. Throws
  /// Error(aborted) on all ranks if the loss is not finite. Fills the timeline unless it is null.
  virtual StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) = 0;

  /// Collective. Returns the hash of all values, equal on all ranks. A rank that holds all values
  /// returns Replica::hash(), so that strategies can be compared. Throws Error(mismatch), whose
  /// text begins with `when`, if ranks disagree about values that must be equal, and Error(aborted)
  /// for values that are not finite.
  virtual std::uint64_t verify(const std::string& when) = 0;
  /// Collective. Returns the fraction of the test samples that the model now classifies correctly.
  virtual double evaluate() = 0;

  /// Collective. Returns everything that the next step depends on, except the position.
  virtual Snapshot snapshot() = 0;
  /// Collective, after snapshot(), when the caller has written new values into its tensors on rank
  /// 0: every rank takes its part of the values and continues at this position.
  virtual void adopt(const Position& at) = 0;
  /// As adopt(), if only the tensors that all ranks share have new values. The state that each rank
  /// has for itself starts from its initial values.
  virtual void adoptShared(const Position& at) { adopt(at); }

  /// Not collective. Returns what this rank holds of the state: all of it, which is allowed after a
  /// failure too, or its shard (StrategyKind::sharded), at a synchronization point only. The parts
  /// of all ranks together are the state. A run that goes on with other ranks writes them into the
  /// tensors of a snapshot() and calls adopt(). Strategies that take option "elastic" have it.
  virtual std::vector<StatePart> held() { return {}; }
  /// Whether the ranks hold different models (local SGD). The state of the run is then the mean of
  /// their held() values; the caller writes it into held() of every rank before snapshot().
  virtual bool differs() const { return false; }

  /// Bytes that all ranks together send in one step, by the formula at the head of the strategy's
  /// file. Excludes loss, stop flag, statistics of batch norms, norms and headers. Assumes
  /// collectives that send no more than the minimum.
  virtual double bytesPerStep() const = 0;
  /// Collective, once, at the end. Adds results that only this strategy has. The same on all ranks.
  virtual void tell(TrainReport&) {}
};

/// The arguments of a strategy. The referenced objects must outlive it. All ranks have the same
/// options and data.
struct Setup {
  Communicator& comm;
  const TrainOptions& options;
  const Data& data;
};

/// A line of strategies.def.
struct StrategyKind {
  std::string_view name, summary;
  /// Throws Error(invalid_argument) if values of options contradict each other or do not fit
  /// `ranks`. The same on all ranks.
  void (*check)(const TrainOptions& options, int ranks);
  /// Collective. Wraps anything that can fail on one rank alone in agree().
  std::unique_ptr<Strategy> (*make)(const Setup& setup);
  /// Returns, as text, what each rank computes, sends and receives in one step, in order. Null if
  /// the strategy has no such plan.
  std::string (*show)(const TrainOptions& options, const Dataset& samples, int ranks) = nullptr;
  bool sharded = false; ///< a rank holds its shard of the state only (Strategy::held())
  int redundancy = 0;   ///< default of TrainOptions::elastic.redundancy, if sharded
};

std::span<const StrategyKind* const> strategies();

/// Returns the strategy options.strategy. Throws Error(invalid_argument) for an unknown name
/// (listing the valid ones), for an option that the strategy does not accept (listing the
/// strategies that do), and if its check() throws.
const StrategyKind& strategyFor(const TrainOptions& options, int ranks);

} // namespace rondo::training
