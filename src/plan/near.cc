// Orders ranks by node and socket. A plan that is built for positions in that order becomes a plan
// for ranks: each position number is replaced by the rank at that position.
#include "plan/near.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/compose.h"

namespace rondo::plan {
namespace {

std::vector<int> asNumbered(int ranks) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// The groups of a rank, from the largest to the smallest. The groups of `first` become 0; others
/// keep their numbers.
std::vector<int> keyOf(const Layout& layout, std::size_t rank, std::size_t first) {
  std::vector<int> key;
  for (const auto& groups : layout.groups)
    key.push_back(groups[rank] == groups[first] ? 0 : groups[rank] + 1);
  return key;
}

std::vector<int> byGroups(const Spec& spec, int first) {
  std::vector<int> order = asNumbered(spec.ranks);
  const auto key = [&](int rank) {
    return std::pair(
        keyOf(spec.layout, static_cast<std::size_t>(rank), static_cast<std::size_t>(first)),
        rank != first);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
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
