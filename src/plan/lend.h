// Which messages may stay where they are sent from, for receivers that read them there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// A step whose value lies in one piece of the rank's input or output may lend that in place of
/// sending it: the receivers read it there, and the sender's run does not end before all have.
///
/// Nothing may be written there meanwhile, in place neither: whatever writes to it comes before the
/// step, or after all who receive it, by nothing but the order of lanes, `after` and messages. So
/// lending adds no wait but that at the end, for which nobody waits: what the checker proved of
/// deadlocks stays true.
class Lending {
 public:
  /// `plans`: of all ranks, in order. `scaled`: what is read from the input is multiplied, so that
  /// it does not hold what is sent. `uneven`: messages may be left out, and so order nothing.
  Lending(std::span<const RankPlan> plans, bool scaled, bool uneven);

  /// Whether the step may; false for one that sends nothing.
  bool may(int rank, std::uint32_t lane, std::uint32_t step) const {
    return may_[static_cast<std::size_t>(rank)][lane][step];
  }
  /// Whether every step of every rank may that sends.
  bool always() const { return always_; }

 private:
  std::vector<std::vector<std::vector<bool>>> may_; ///< [rank][lane][step]
  bool always_ = true;
};

} // namespace rondo::plan
