// Which ranks share a node or a socket. Specs contain it, and plans may use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::plan {

/// Nested groups of ranks. Ranks of a node share its memory and its links to other nodes; inside a
/// node, ranks of a socket are closer to each other. The ranks of a group need not be consecutive,
/// and groups may differ in size.
struct Layout {
  /// groups[l][r] is the group of rank r on level l. Level 0 has the nodes, and each further level
  /// divides the groups of the one before. The groups of a level are numbered in the order in which
  /// they first appear, from rank 0 on. Empty: all ranks are alike, or the layout is unknown.
  std::vector<std::vector<int>> groups;

  bool operator==(const Layout&) const = default;
  auto operator<=>(const Layout&) const = default;

  /// The ranks of each node, ascending; nodes in the order of their numbers. Without levels: one
  /// empty node.
  std::vector<std::vector<int>> nodes() const;
  /// Whether there are several nodes and one of them has several ranks, so that it matters which
  /// ranks communicate between nodes.
  bool clustered() const;
  /// The lower levels for some ranks of one node, in the given order.
  Layout within(const std::vector<int>& ranks) const;
};

/// Turns names of groups into numbers. The names are equal for ranks of the same group.
template <typename Name>
std::vector<int> numbered(const std::vector<Name>& names) {
  std::vector<Name> seen;
  std::vector<int> numbers;
  for (const Name& name : names) {
    std::size_t i = 0;
    while (i < seen.size() && seen[i] != name) ++i;
    if (i == seen.size()) seen.push_back(name);
    numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

/// The text form, of one of these kinds:
///     4x2     4 nodes of 2 ranks; 2x2x4: 2 nodes of 2 sockets of 4 ranks
///     3,1,4   nodes of 3, 1 and 4 ranks
///     0.1.0   the node of each rank, if a node's ranks are not consecutive; deeper levels
///                     follow after '/', as in 0.0.1.1/0.1.2.2
/// "": unknown. Throws Error(invalid_argument) that says what is wrong, also if the text has more
/// or fewer ranks than `ranks` (0: any number).
Layout parseLayout(std::string_view text, int ranks = 0);

/// The shortest text form; "" for a layout without levels.
std::string text(const Layout& layout);

} // namespace rondo::plan
