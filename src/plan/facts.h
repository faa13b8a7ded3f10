// Facts that follow from an algorithm and a spec alone. Each is computed once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "plan/lend.h"
#include "plan/plan.h"
#include "plan/put.h"

namespace rondo::plan {

/// Each fact is about all ranks' plans together, so every rank gets the same. It is computed on
/// first use, from plans that are built for that and dropped, and then kept. A caller that uses no
/// fact builds no plan. Not thread-safe.
class Facts {
 public:
  Facts(const Algorithm& algorithm, const Spec& spec) : algorithm_(&algorithm), spec_(spec) {}

  /// Whether the checker proves data flow and ReductionOrder::rank_order, which deterministic mode
  /// requires. Costs a data-flow pass: milliseconds for 64 ranks.
  bool inRankOrder();
  /// Whether the plans can be used for v-forms, see plan::servesUneven().
  bool servesUneven();
  /// The largest number of lanes on any rank.
  std::uint32_t mostLanes();
  bool oneLane() { return mostLanes() <= 1; }
  /// `scaled` and `uneven`: see Lending. The cost grows with the square of the number of steps.
  const Lending& lending(bool scaled, bool uneven);
  /// For blocks of one size. The cost grows likewise.
  const Puts& puts();

 private:
  const Algorithm* algorithm_;
  Spec spec_;
  std::optional<bool> in_rank_order_, serves_uneven_;
  std::optional<std::uint32_t> most_lanes_;
  std::array<std::optional<Lending>, 4> lending_; ///< scaled + 2 * uneven
  std::optional<Puts> puts_;
};

} // namespace rondo::plan
