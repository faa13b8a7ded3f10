// Computes trees and distances.
#include "plan/patterns.h"

namespace rondo::plan {
namespace {

TreeNode inOrderTree(int ranks, int rank) {
  TreeNode node;
  if (rank == 0) {
    if (ranks > 1) node.children.push_back(1 << floorLog2(ranks - 1));
    return node;
  }
  // An interior rank is the middle of the interval that its lowest bit spans. If the upper
  // neighbours do not exist, the rest of them moves up.
  const int bit = rank & -rank;
  node.parent = (rank ^ bit) | (bit << 1);
  if (node.parent >= ranks) node.parent = rank ^ bit;
  if (bit == 1) return node;
  node.children.push_back(rank - bit / 2);
  for (int step = bit / 2; step > 0; step /= 2) {
    if (rank + step >= ranks) continue;
    node.children.push_back(rank + step);
    break;
  }
  return node;
}

} // namespace

std::vector<int> bruckDistances(int ranks) {
  std::vector<int> distances;
  for (int d = 1; d < ranks; d *= 2) distances.push_back(d);
  return distances;
}

TreeNode binomialTree(int ranks, int root, int rank) {
  TreeNode node;
  node.size = ranks;
  int first = 0, size = ranks, holder = root;
  while (size > 1) {
    const int middle = first + (size + 1) / 2;
    const bool holder_low = holder < middle, rank_low = rank < middle;
    const int other = holder_low ? middle : first; // the lowest rank of the half without the holder
    if (rank == holder) node.children.push_back(other);
    if (rank_low != holder_low) {
      node.parent = holder;
      holder = other;
    }
    const int end = first + size;
    first = rank_low ? first : middle;
    size = (rank_low ? middle : end) - first;
    if (rank == other) {
      node.first = first;
      node.size = size;
    }
  }
  return node;
}

std::array<TreeNode, 2> doubleTree(int ranks, int rank) {
  const bool mirrored = ranks % 2 == 0;
  const auto swap = [&](int r) { // from a rank to its place in the first tree
    return mirrored ? ranks - 1 - r : wrap(r - 1, ranks);
  };
  const auto back = [&](int r) { return mirrored ? ranks - 1 - r : wrap(r + 1, ranks); };
  TreeNode second = inOrderTree(ranks, swap(rank));
  if (second.parent >= 0) second.parent = back(second.parent);
  for (int& child : second.children) child = back(child);
  return {inOrderTree(ranks, rank), second};
}

} // namespace rondo::plan
