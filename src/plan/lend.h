// Finds messages that may stay in the sender's memory, where the receivers read them; and calls in
// which both ends may copy parts of a message.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// Whether the collective is one-way: it only moves data, either from one rank or to one rank. Then
/// one end of each message has nothing else to do, and can copy a part of it.
constexpr bool movesOneWay(Collective collective) {
  return collective == Collective::sendrecv || (hasRoot(collective) && !reduces(collective));
}

/// A step whose value lies in one piece of the rank's input or output may lend it instead of
/// sending it. The receivers read it there, and the sender's run ends only after all have read it.
///
/// Until all have read it, no step may write there, also in place. The order of lanes, `after` and
/// messages alone must put each write before the step, or after the steps of all receivers. Lending
/// adds one wait, at the end of the run, on which no other step depends. So the checker's proof
/// that there are no deadlocks still holds.
class Lending {
 public:
  /// `plans`: of all ranks, in order. `scaled`: values from the input are multiplied when they are
  /// read, so the input does not hold what is sent. `uneven`: messages may be left out, and then
  /// they order nothing.
  Lending(std::span<const RankPlan> plans, bool scaled, bool uneven);

  /// Whether the step may lend; false for a step that sends nothing.
  bool may(int rank, std::uint32_t lane, std::uint32_t step) const {
    return may_[static_cast<std::size_t>(rank)][lane][step];
  }
  /// Whether every sending step of every rank may lend.
  bool always() const { return always_; }

 private:
  std::vector<std::vector<std::vector<bool>>> may_; ///< [rank][lane][step]
  bool always_ = true;
};

} // namespace rondo::plan
