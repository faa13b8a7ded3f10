// `rondo plan --check`: proves plans of many rank counts, on all cores.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/plan.h"
#include "plan/registry.h"

namespace rondo::tools {

/// An algorithm with a collective, and the specs (rank counts, roots, parameters,
/// layouts) to prove.
struct PlanPair {
  const plan::Algorithm* algorithm = nullptr;
  Collective collective = Collective::allreduce;
  std::vector<plan::Spec> specs; ///< those that the algorithm supports
};

/// Returns all pairs that support any of the rank counts. Roots: all of them up to 8 ranks, else
/// the first two, the middle one and the last. Parameters: that of the choice; if it has none, the
/// default, and those of 1, 2, 3, 4 and the rank count that the algorithm accepts. Layouts: none,
/// or the given ones that have one of the rank counts.
std::vector<PlanPair> pairsToCheck(const std::vector<plan::Choice>& choices,
                                   const std::vector<Collective>& collectives,
                                   const std::vector<int>& ranks,
                                   const std::vector<plan::Layout>& layouts = {});

/// Parses --layout as used with --check: a written layout, or "all": every way to put the ranks
/// on nodes in order, 2^(ranks-1) layouts. Throws Error(invalid_argument) for "all" with more
/// than 16 ranks, and for a layout that has none of the rank counts.
std::vector<plan::Layout> layoutsToCheck(const std::string& text, const std::vector<int>& ranks);

/// Result of the checks of one pair.
struct PairVerdict {
  std::size_t plans = 0;                 ///< plans checked, one per spec
  std::size_t violating = 0;             ///< plans that failed
  std::vector<std::string> violations;   ///< of the first failing specs
  bool rank_order = true, agrees = true; ///< true for all plans, see plan::ReductionOrder
};

/// Checks all specs of all pairs at depths 1, 2 and 8 with `threads` threads. `report` is called
/// for each pair, in order, on one of these threads (never on two at the same time).
void checkPairs(const std::vector<PlanPair>& pairs, int threads,
                const std::function<void(const PlanPair&, const PairVerdict&)>& report);

/// "ring           allreduce      1-64   64 plans  proved, ...".
std::string verdictText(const PlanPair& pair, const PairVerdict& verdict);

} // namespace rondo::tools
