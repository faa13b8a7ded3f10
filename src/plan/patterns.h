// Communication patterns: pure functions of rank numbers that the algorithms share.
#pragma once

#include <array>
#include <bit>
#include <vector>

namespace rondo::plan {

/// `i` modulo `ranks`, also for negative `i`.
constexpr int wrap(int i, int ranks) { return ((i % ranks) + ranks) % ranks; }

/// Both need x >= 1.
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

/// Binomial tree with any root. An interval of ranks has a holder. It is halved, and the lowest
/// rank of the half without the holder becomes that half's holder and a child of the other holder.
/// So every subtree is an interval: scatter and gather move it in one piece, and a reduction in the
/// order of the intervals is in rank order. For powers of two it is the classical tree.
TreeNode binomialTree(int ranks, int root, int rank);

/// The two binary trees of Sanders, Speck and Traeff. A rank that is interior in one tree is a leaf
/// in the other, except one rank if their number is odd. The first is the in-order tree: odd ranks
/// are leaves, and the parent of an even rank differs from it around its lowest bit. The second
/// mirrors it for an even number of ranks, and shifts it by one rank for an odd number. Subtrees
/// need not be intervals, so first and size are not set.
std::array<TreeNode, 2> doubleTree(int ranks, int rank);

/// For algorithms that need a power of two. Among the first 2 * extras ranks, every odd one is
/// *folded* into the even one before it. The remaining ranks are numbered 0..size-1 in rank order.
struct Fold {
  explicit Fold(int ranks) : size(1 << floorLog2(ranks)), extras(ranks - size) {}

  int size;   ///< a power of two
  int extras; ///< number of folded ranks

  bool folded(int rank) const { return rank < 2 * extras && rank % 2 == 1; }
  /// Whether number `v` also represents a folded rank, which is rank real(v) + 1.
  bool doubled(int v) const { return v < extras; }
  int number(int rank) const { return rank < 2 * extras ? rank / 2 : rank - extras; }
  int real(int v) const { return v < extras ? 2 * v : v + extras; }
};

} // namespace rondo::plan
