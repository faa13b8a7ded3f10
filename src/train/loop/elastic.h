// The ranks of an elastic run: how they become fewer and more.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "rondo/train.h"
#include "train/data/dataset.h"
#include "train/loop/rendezvous_file.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

/// Throws Error(invalid_argument) for TrainOptions::elastic that contradicts itself or the number
/// of ranks, or that the strategy cannot do.
void checkElastic(const TrainOptions& options, int ranks);

/// The fewest and the most ranks that the run goes on with: MIN and MAX of TrainOptions::elastic,
/// or `ranks` and `ranks` if the run is not elastic.
std::pair<int, int> rankLimits(const TrainOptions& options, int ranks);

/// Number of copies of each rank's shard in an elastic run; 0 if the strategy has no shards.
int redundancyOf(const TrainOptions& options, const StrategyKind& kind);

/// The failure of `comm`, if `error` may be the loss of a rank. `error` may come from a
/// communicator that the strategy made, which has rank numbers of its own and may fail some
/// milliseconds before `comm`. So this waits for the failure of `comm` for up to `wait`, and
/// returns nothing if there is none.
std::optional<Error> failureOf(const Communicator& comm, const Error& error,
                               std::chrono::milliseconds wait = std::chrono::seconds(1));

/// All functions are collective. The communicator is replaced by each change.
class ElasticRanks {
 public:
  ElasticRanks(Communicator& comm, const TrainOptions& options);

  /// From now on new ranks can wait to join.
  void open();
  bool tooFew() const { return comm_.size() < least_; }
  int least() const { return least_; }
  /// Whether ranks wait that may join. Call it after a step.
  bool mayGrow();
  enum class Awaited { enough, late, stopped };
  /// Waits until enough ranks wait to join for MIN, until it is too late, or until stop(), which
  /// may be empty, returns true on rank 0.
  Awaited await(const std::function<bool()>& stop);
  /// Lets the ranks in that mayGrow() or await() has seen. If one of them dies, the others go on
  /// without.
  void grow();
  struct Loss {
    Error cause;
    bool leaves = true; ///< no rank is lost, or this one is
  };
  /// Call it after an error, before the strategy is destroyed. Destroying the strategy first would
  /// abort a communicator that has not failed yet, and the others would blame this rank. As long as
  /// the ranks prepare to go on, an error that agree() throws for one rank is the loss of that one.
  Loss hear(const Error& cause, bool prepares);
  /// Goes on without the ranks that are lost. Throws the cause if this rank leaves, and the errors
  /// of Communicator::shrink().
  void shrink(const Loss& loss);

 private:
  struct News {
    std::int32_t newcomers = 0, late = 0, stopped = 0;
  };
  /// Returns what rank 0 says.
  News ask(bool late = false, bool stopped = false);

  Communicator& comm_;
  int least_ = 0, most_ = 0;
  const double wait_;
  RendezvousFile rendezvous_file_;
  int newcomers_ = 0;
};

/// Collective. Trains as train() does, and goes on when ranks are lost or join. prepare() checks
/// options and loads the data, inside agree(). Before trainElastic() all ranks call it, except
/// those that join; trainElastic() calls it on these, and on all ranks after each loss or join.
TrainReport trainElastic(Communicator& comm, const TrainOptions& options, const Data& data,
                         const std::function<void(const TrainProgress&)>& progress,
                         const std::function<void()>& prepare);

} // namespace rondo::training
