// Tests patterns for 1 to 130 ranks: trees span all ranks, and folds and distances cover them.
#include "plan/patterns.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

constexpr int kMostRanks = 130;

/// Each rank except the root is the child of exactly one rank, which is its parent, and all paths
/// lead to the root.
void requireTree(const std::vector<TreeNode>& nodes, int root) {
  const int ranks = static_cast<int>(nodes.size());
  std::vector<int> children;
  for (int r = 0; r < ranks; ++r) {
    for (const int child : nodes[static_cast<std::size_t>(r)].children) {
      REQUIRE((child >= 0 && child < ranks));
      REQUIRE(nodes[static_cast<std::size_t>(child)].parent == r);
      children.push_back(child);
    }
    int at = r, steps = 0;
    while (at != root && steps++ < ranks) at = nodes[static_cast<std::size_t>(at)].parent;
    REQUIRE(at == root);
  }
  REQUIRE(nodes[static_cast<std::size_t>(root)].parent == -1);
  REQUIRE(children.size() == nodes.size() - 1);
  REQUIRE(std::set<int>(children.begin(), children.end()).size() == children.size());
}

int depth(const std::vector<TreeNode>& nodes, int rank) {
  int depth = 0;
  for (; nodes[static_cast<std::size_t>(rank)].parent >= 0; ++depth) {
    rank = nodes[static_cast<std::size_t>(rank)].parent;
  }
  return depth;
}

} // namespace

TEST_CASE("wrap and logarithms agree with their definitions") {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (int i = -ranks; i < 2 * ranks; ++i) {
      const int wrapped = wrap(i, ranks);
      REQUIRE((wrapped >= 0 && wrapped < ranks && (wrapped - i) % ranks == 0));
    }
    const int low = floorLog2(ranks), high = ceilLog2(ranks);
    REQUIRE(((1 << low) <= ranks && ranks < (2 << low)));
    REQUIRE((ranks <= (1 << high) && (high == 0 || ranks > (1 << (high - 1)))));
  }
}

TEST_CASE("the binomial tree spans all ranks from every root, by intervals, in few levels") {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (int root = 0; root < ranks; ++root) {
      CAPTURE(ranks, root);
      std::vector<TreeNode> nodes;
      for (int r = 0; r < ranks; ++r) nodes.push_back(binomialTree(ranks, root, r));
      requireTree(nodes, root);
      for (int r = 0; r < ranks; ++r) {
        const TreeNode& node = nodes[static_cast<std::size_t>(r)];
        // The rank and its children's intervals fill the rank's own interval.
        std::vector<int> members{r};
        int last_size = ranks;
        for (const int child : node.children) {
          const TreeNode& below = nodes[static_cast<std::size_t>(child)];
          REQUIRE(below.size <= last_size); // largest first
          last_size = below.size;
          for (int i = 0; i < below.size; ++i) members.push_back(below.first + i);
        }
        std::sort(members.begin(), members.end());
        std::vector<int> interval(static_cast<std::size_t>(node.size));
        std::iota(interval.begin(), interval.end(), node.first);
        REQUIRE(members == interval);
        REQUIRE(depth(nodes, r) <= ceilLog2(ranks));
        REQUIRE(static_cast<int>(node.children.size()) <= ceilLog2(ranks));
      }
    }
  }
}

TEST_CASE("for powers of two the binomial tree of rank 0 is the classical one") {
  for (int ranks = 1; ranks <= 128; ranks *= 2) {
    for (int rank = 1; rank < ranks; ++rank) {
      CAPTURE(ranks, rank);
      CHECK(binomialTree(ranks, 0, rank).parent == (rank & (rank - 1)));
    }
  }
}

TEST_CASE("both double trees span all ranks, and no rank sends more than 2n in an all-reduce") {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    CAPTURE(ranks);
    std::vector<TreeNode> trees[2];
    for (int r = 0; r < ranks; ++r) {
      const auto both = doubleTree(ranks, r);
      double sent = 0;
      for (int t = 0; t < 2; ++t) {
        trees[t].push_back(both[static_cast<std::size_t>(t)]);
        const TreeNode& node = trees[t].back();
        REQUIRE(node.children.size() <= 2);
        sent += 0.5 * (static_cast<double>(node.children.size()) + (node.parent >= 0 ? 1 : 0));
      }
      REQUIRE(sent <= 2);
    }
    for (const auto& nodes : trees) {
      const auto root = std::find_if(nodes.begin(), nodes.end(),
                                     [](const TreeNode& node) { return node.parent < 0; });
      REQUIRE(root != nodes.end());
      requireTree(nodes, static_cast<int>(root - nodes.begin()));
      for (int r = 0; r < ranks; ++r) REQUIRE(depth(nodes, r) <= ceilLog2(ranks));
    }
    // The purpose of two trees: at most one rank, of an odd number, is interior in both.
    int interior_twice = 0;
    for (std::size_t r = 0; r < trees[0].size(); ++r) {
      if (!trees[0][r].children.empty() && !trees[1][r].children.empty()) ++interior_twice;
    }
    REQUIRE(interior_twice <= ranks % 2);
  }
}

TEST_CASE(
    "a fold leaves a power of two, in rank order, and each folded rank has a neighbour that works "
    "for it") {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    CAPTURE(ranks);
    const Fold fold(ranks);
    REQUIRE(fold.size == 1 << floorLog2(ranks));
    std::vector<int> seen;
    for (int v = 0; v < fold.size; ++v) {
      const int rank = fold.real(v);
      REQUIRE_FALSE(fold.folded(rank));
      REQUIRE(fold.number(rank) == v);
      seen.push_back(rank);
      if (!fold.doubled(v)) continue;
      REQUIRE(fold.folded(rank + 1));
      seen.push_back(rank + 1);
    }
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    REQUIRE(seen == all); // in rank order
  }
}

TEST_CASE("Bruck's distances make every distance below the rank count, each at most once") {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    const auto distances = bruckDistances(ranks);
    REQUIRE(static_cast<int>(distances.size()) == ceilLog2(ranks));
    REQUIRE(std::accumulate(distances.begin(), distances.end(), 0) >= ranks - 1);
    for (std::size_t i = 0; i < distances.size(); ++i) REQUIRE(distances[i] == 1 << i);
  }
}

} // namespace rondo::test
