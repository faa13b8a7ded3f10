// What follows from an algorithm and a spec alone, worked out once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "plan/land.h"
#include "plan/lend.h"
#include "plan/plan.h"

namespace rondo::plan {

/// Each fact is one of all ranks' plans together, so every rank finds the same. It is worked out
/// when it is first asked for, from plans that are built for that and dropped, and kept: who asks
/// for none builds nothing. Not thread-safe.
class Facts {
 public:
  Facts(const Algorithm& algorithm, const Spec& spec) : algorithm_(&algorithm), spec_(spec) {}

  /// The checker proves data flow and ReductionOrder::rank_order: what deterministic mode demands.
  /// Costs a data-flow pass, milliseconds for 64 ranks.
  bool inRankOrder();
  /// The v-forms' question, see plan::servesUneven().
  bool servesUneven();
  /// Of the rank that has most.
  std::uint32_t mostLanes();
  bool oneLane() { return mostLanes() <= 1; }
  /// See Lending for what is `scaled` and `uneven`. Its cost grows with the square of the steps.
  const Lending& lending(bool scaled, bool uneven);
  /// For blocks of one size. Its cost grows likewise.
  const Landing& landing();

 private:
  const Algorithm* algorithm_;
  Spec spec_;
  std::optional<bool> in_rank_order_, serves_uneven_;
  std::optional<std::uint32_t> most_lanes_;
  std::array<std::optional<Lending>, 4> lending_; ///< scaled + 2 * uneven
  std::optional<Landing> landing_;
};

} // namespace rondo::plan
