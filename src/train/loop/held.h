// What a rank keeps of a run in memory while the ranks change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rondo/train.h"
#include "train/loop/resume.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

/// A copy of what one rank holds of the state.
struct Shard {
  std::string labels;        ///< of each part: tensor, first element, number of elements
  std::vector<float> values; ///< of the parts, one after the other
};

/// What a rank has of the state after one step.
struct Kept {
  /// Generation of the set of ranks, which grows at each shrink or grow. `shards` and `rank` refer
  /// to that generation.
  std::int32_t changes = 0;
  std::int32_t shards = 1; ///< of which the state consists; 1: each rank has all of it
  std::int32_t rank = 0;   ///< the shard that `own` is
  Position at;
  Shard own;
  std::optional<Shard> next; ///< the shard of the next rank
};

struct Held {
  /// Two at most, the newest last; none: this rank has made no step.
  std::vector<Kept> kept;
  TrainReport report;      ///< of the complete epochs
  std::int64_t saved = -1; ///< step of the last checkpoint; -1: there is none
  std::string recovery;    ///< TrainProgress::recovery of the step that was not completed
};

/// Copies the parts. Uses the memory of `into` again.
void copy(std::span<const StatePart> parts, Shard& into);

/// Copies of the state after the last two steps, this rank's shard and the next rank's, so that the
/// others can go on without this rank or the next one. Two steps, since ranks may differ by one
/// when a rank is lost. Completing step s needs every rank, and each has then finished the copies
/// of step s-1. So the copies of s-2 can be overwritten.
class Copies {
 public:
  explicit Copies(Communicator& comm) : comm_(comm) {}

  /// Begins with what the run goes on from.
  void begin(std::int32_t changes, std::vector<Kept> kept);
  /// Collective, after each step: the rank sends its shard to the rank before it. `before`: the
  /// position before the step.
  void renew(const Running& run, const Position& before);
  /// The copies, for a run that is at this position or in the step after it.
  std::vector<Kept> take(const Position& at);

 private:
  void place(const Position& at);
  void exchange(Kept& kept);

  Communicator& comm_;
  std::int32_t changes_ = 0;
  std::string next_labels_; ///< of the next rank's shard
  std::size_t next_values_ = 0;
  bool told_ = false; ///< the labels are known
  std::vector<Kept> kept_;
};

} // namespace rondo::training
