// double_tree: two binary trees, each reducing and sharing one half of the data.
//
// In a binary tree half of the ranks are leaves, whose links carry little. Here a rank that is
// interior in one tree is a leaf in the other (plan::doubleTree), so the links are used evenly: no
// rank sends more than 2n. Up and down of both trees are separate lanes, so that all four work on
// different tiles at the same time. It has the rounds of a tree and the bytes of a ring: for large
// messages on many ranks, where the tiles fill the pipeline.
//
// Time: 2 (1 + log2(p-1)) alpha + 2 n beta + n gamma, once the pipeline is full.
#include <algorithm>

#include "plan/builder.h"
#include "plan/near.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) { return spec.collective == Collective::allreduce && plain(spec); }

double cost(const Spec& spec, const Link& link, double bytes) {
  if (spec.ranks == 1) return 0;
  const int height = 1 + floorLog2(spec.ranks - 1);
  return 2 * height * link.alpha + bytes * (2 * link.beta + link.gamma);
}

ClosedForm closedForm(const Spec& spec) {
  if (spec.ranks == 1) return {};
  // Both trees have the same shape. Below the root's child, the largest power of two that is a
  // rank, the lower half is complete; it holds the longest path. From four ranks on, the busiest
  // rank has a parent and two children in one tree and a parent in the other.
  const int height = 1 + floorLog2(spec.ranks - 1);
  return {2 * height, 2.0 * (spec.ranks - 1), std::min(2.0, spec.ranks / 2.0)};
}

void buildTree(Builder& plan, const TreeNode& node, int half) {
  auto up = plan.lane().step().with(in(half));
  for (const int child : node.children) up.recv(child, half);
  if (node.parent < 0) {
    up.to(out(half));
    for (const int child : node.children) up.send(child, half);
    return;
  }
  up.send(node.parent, half);
  auto down = plan.lane().recv(node.parent, out(half), half);
  for (const int child : node.children) down.send(child, half);
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  Builder plan(spec, rank, 2);
  const auto trees = doubleTree(spec.ranks, rank);
  buildTree(plan, trees[0], 0);
  buildTree(plan, trees[1], 1);
  return plan.take();
}

} // namespace

extern const plan::Algorithm double_tree;
const plan::Algorithm double_tree{
    .name = "double_tree",
    .summary = "two binary trees, each for one half of the data",
    .supports = supports,
    .cost = cost,
    .closedForm = nearForm<closedForm>,
    .build = nearPlan<build>,
};

} // namespace rondo::algorithms
