// Who talks to whom. Pure functions of rank numbers, shared by the algorithms.
#pragma once

#include <array>
#include <bit>
#include <vector>

namespace rondo::plan {

/// The rank that `i` means when ranks are counted round and round.
constexpr int wrap(int i, int ranks) { return ((i % ranks) + ranks) % ranks; }

/// For x >= 1.
constexpr int floorLog2(int x) { return std::bit_width(static_cast<unsigned>(x)) - 1; }
constexpr int ceilLog2(int x) { return std::bit_width(static_cast<unsigned>(x) - 1u); }

/// Distances 1, 2, 4, ... below `ranks`: the rounds of Bruck's algorithms and of dissemination.
std::vector<int> bruckDistances(int ranks);

/// A rank's place in a tree.
struct TreeNode {
  int parent = -1;           ///< -1 at the root
  std::vector<int> children; ///< largest subtree first
  /// The subtree is exactly the ranks [first, first + size).
  int first = 0, size = 1;
};

/// Binomial tree of any root. An interval of ranks has a holder; it is cut into halves, and the
/// lowest rank of the half without holder becomes its holder and a child of the other. So every
/// subtree is an interval (scatter and gather move it in one piece; a reduction in the order of the
/// intervals is in rank order), and for powers of two it is the classical tree.
TreeNode binomialTree(int ranks, int root, int rank);

/// The two binary trees of Sanders, Speck and Traeff: a rank that is interior in one is a leaf in
/// the other, but for one rank of an odd number. The first is the in-order tree: parent and child
/// of an even rank differ in its lowest bit's neighbourhood, odd ranks are leaves. The second
/// mirrors it for an even number of ranks, and shifts it by one rank for an odd number.
/// Subtrees need not be intervals: first and size are not set.
std::array<TreeNode, 2> doubleTree(int ranks, int rank);

/// For algorithms that need a power of two. Of the first 2 * extras ranks every odd one is *folded*
/// into the even one before it; the ranks that stay are numbered 0..size-1 in rank order.
struct Fold {
  explicit Fold(int ranks) : size(1 << floorLog2(ranks)), extras(ranks - size) {}

  int size;   ///< a power of two
  int extras; ///< ranks folded

  bool folded(int rank) const { return rank < 2 * extras && rank % 2 == 1; }
  /// Whether a folded rank stands behind number `v`: it is rank real(v) + 1.
  bool doubled(int v) const { return v < extras; }
  int number(int rank) const { return rank < 2 * extras ? rank / 2 : rank - extras; }
  int real(int v) const { return v < extras ? 2 * v : v + extras; }
};

} // namespace rondo::plan
