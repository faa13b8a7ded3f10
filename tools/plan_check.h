// `rondo plan --check`: proves plans of many rank counts, on all cores.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/plan.h"

namespace rondo::tools {

/// An algorithm with a collective, and the rank counts, roots and parameters to prove.
struct PlanPair {
  const plan::Algorithm* algorithm = nullptr;
  Collective collective = Collective::allreduce;
  std::vector<plan::Spec> specs; ///< those that the algorithm supports
};

/// Every pair that supports any of the rank counts. `algorithms`: empty for all.
/// Roots: all up to 8 ranks, else the first two, the middle one and the last. Parameters: the
/// default, and those of 1, 2, 3, 4 and the rank count that the algorithm takes. Layouts: none, or
/// the ones given, which must have one of the rank counts.
std::vector<PlanPair> pairsToCheck(const std::vector<const plan::Algorithm*>& algorithms,
                                   const std::vector<Collective>& collectives,
                                   const std::vector<int>& ranks,
                                   const std::vector<plan::Layout>& layouts = {});

/// What --layout says with --check: a written layout, or "all": every way to put the ranks on nodes
/// one after the other, 2^(ranks-1) layouts. Throws Error(invalid_argument) for "all" of more than
/// 16 ranks.
std::vector<plan::Layout> layoutsToCheck(const std::string& text, const std::vector<int>& ranks);

/// What was found about one pair.
struct PairVerdict {
  std::size_t plans = 0;                 ///< checked: one per spec
  std::size_t violating = 0;             ///< of them
  std::vector<std::string> violations;   ///< of the first violating specs
  bool rank_order = true, agrees = true; ///< of all, see plan::ReductionOrder
};

/// Checks all specs of all pairs at depths 1, 2 and 8 with `threads` threads. `report` is called
/// for each pair, in order, on one of them (never at the same time).
void checkPairs(const std::vector<PlanPair>& pairs, int threads,
                const std::function<void(const PlanPair&, const PairVerdict&)>& report);

/// "ring           allreduce      1-64   64 plans  proved, ...".
std::string verdictText(const PlanPair& pair, const PairVerdict& verdict);

} // namespace rondo::tools
