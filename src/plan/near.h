// Plans of algorithms that know rank numbers only, for ranks ordered by where they are.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// Who stands at each place, so that ranks of a node follow each other, and inside it those of a
/// socket. The root's groups come first, and the root in front; without a root those of rank 0. So
/// a ring leaves each node once, and a tree's subtrees lie inside nodes as far as they can. Ranks
/// in turn, as they are numbered, where that is so already or nothing is known of where they are.
std::vector<int> nearOrder(const Spec& spec);

/// What an algorithm is asked for places instead of ranks: the spec without a layout, its root
/// where nearOrder() has it. The same spec where the order is that of the numbers, and for Scatter
/// and Gather: their messages hold blocks of several ranks, which must lie side by side.
Spec nearSpec(const Spec& spec);

/// A rank's plan by `build`, asked for places and renamed to ranks (plan/compose.h), so what the
/// checker proves of an algorithm it proves of this.
using BuildPlan = RankPlan (*)(const Spec&, int rank);
RankPlan nearPlan(BuildPlan build, const Spec& spec, int rank);

/// For the table of an algorithm: `.closedForm = nearForm<closedForm>, .build = nearPlan<build>`.
template <BuildPlan build>
RankPlan nearPlan(const Spec& spec, int rank) {
  return nearPlan(build, spec, rank);
}
template <ClosedForm (*form)(const Spec&)>
ClosedForm nearForm(const Spec& spec) {
  return form(nearSpec(spec));
}

} // namespace rondo::plan
