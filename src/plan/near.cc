// Orders ranks by node and socket. A plan that is built for positions in that order becomes a plan
// for ranks: each position number is replaced by the rank at that position.
#include "plan/near.h"

#include <algorithm>
#include <numeric>

#include "plan/compose.h"

namespace rondo::plan {
namespace {

std::vector<int> asNumbered(int ranks) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// By group, from the largest groups to the smallest; `first` and its groups come first, others in
/// the order of their numbers.
std::vector<int> byGroups(const Spec& spec, int first) {
  std::vector<int> order = asNumbered(spec.ranks);
  std::rotate(order.begin(), order.begin() + first, order.begin() + first + 1);
  const auto& levels = spec.layout.groups;
  // Each sort keeps the order inside the groups of its level.
  for (auto groups = levels.rbegin(); groups != levels.rend(); ++groups) {
    const auto number = [&](int rank) { return (*groups)[static_cast<std::size_t>(rank)]; };
    const auto nearer = [&](int a, int b) {
      const int own = number(first), of_a = number(a), of_b = number(b);
      return of_a != of_b && (of_a == own || (of_b != own && of_a < of_b));
    };
    // Every rank's plan needs the order, so a sort that changes nothing is left out.
    if (!std::is_sorted(order.begin(), order.end(), nearer))
      std::stable_sort(order.begin(), order.end(), nearer);
  }
  return order;
}

bool movesSingleBlocks(Collective collective) {
  switch (collective) {
    case Collective::allreduce:
    case Collective::reduce:
    case Collective::broadcast:
    case Collective::reducescatter:
    case Collective::allgather: return true;
    default: return false;
  }
}

/// One block, or the block of the rank at each position.
std::vector<Units> places(Space space, std::uint32_t blocks, const std::vector<int>& order) {
  if (blocks == 0) return {};
  if (blocks == 1) return {{{space, 0, 0}}};
  std::vector<Units> all;
  for (const int rank : order) all.push_back({{space, rank, 0}});
  return all;
}

} // namespace

std::vector<int> nearOrder(const Spec& spec) {
  const auto fits = [&](const auto& groups) { return std::ssize(groups) == spec.ranks; };
  const auto& levels = spec.layout.groups;
  const std::vector<int> numbered = asNumbered(spec.ranks);
  if (levels.empty() || !std::all_of(levels.begin(), levels.end(), fits)) return numbered;
  if (byGroups(spec, 0) == numbered) return numbered;
  return byGroups(spec, hasRoot(spec.collective) ? spec.root : 0);
}

Spec nearSpec(const Spec& spec) {
  if (!movesSingleBlocks(spec.collective)) return spec;
  const std::vector<int> order = nearOrder(spec);
  if (std::is_sorted(order.begin(), order.end())) return spec;
  Spec near = spec;
  near.layout = {};
  near.root = hasRoot(spec.collective) ? 0 : spec.root;
  return near;
}

RankPlan nearPlan(BuildPlan build, const Spec& spec, int rank) {
  const Spec near = nearSpec(spec);
  if (near == spec) return build(spec, rank);
  Algorithm plain{};
  plain.build = build;
  Part whole;
  whole.algorithm = &plain;
  whole.spec = near;
  whole.ranks = nearOrder(spec);
  whole.weights.assign(whole.ranks.size(), 1);
  whole.input = places(Space::input, inputBlocks(spec, rank), whole.ranks);
  whole.output = places(Space::output, outputBlocks(spec, rank), whole.ranks);
  return compose(spec, rank, {&whole, 1});
}

} // namespace rondo::plan
