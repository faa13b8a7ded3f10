// Adapts algorithms that know only rank numbers to the ranks' layout.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// The rank at each position, ordered so that ranks of a node are adjacent, and inside a node those
/// of a socket. The root comes first, with its groups; without a root, rank 0. So a ring leaves
/// each node once, and a tree's subtrees lie inside nodes as far as possible. Ascending rank
/// numbers if these already have this property, or if the layout is unknown.
std::vector<int> nearOrder(const Spec& spec);

/// The spec for positions instead of ranks: without a layout, and with the root's position in
/// nearOrder(). Unchanged if the order is that of the numbers, and for Scatter and Gather, whose
/// messages hold blocks of several ranks, which must be contiguous.
Spec nearSpec(const Spec& spec);

/// A rank's plan by `build`, made for positions and renamed to ranks (plan/compose.h). The
/// checker's proofs for the algorithm hold for it too.
using BuildPlan = RankPlan (*)(const Spec&, int rank);
RankPlan nearPlan(BuildPlan build, const Spec& spec, int rank);

/// For an algorithm's table: `.closedForm = nearForm<closedForm>, .build = nearPlan<build>`.
template <BuildPlan build>
RankPlan nearPlan(const Spec& spec, int rank) {
  return nearPlan(build, spec, rank);
}
template <ClosedForm (*form)(const Spec&)>
ClosedForm nearForm(const Spec& spec) {
  return form(nearSpec(spec));
}

} // namespace rondo::plan
