// Which ranks are near each other: a value that specs carry and plans may follow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::plan {

/// Ranks in groups, and groups in groups: ranks of a node share its memory and its links to other
/// nodes; inside a node, ranks of a socket are nearer still. The ranks of a group need not follow
/// each other, and groups may differ in size.
struct Layout {
  /// groups[l][r] is the group of rank r on level l: level 0 are the nodes, each further level
  /// divides the groups of the one before. Groups of a level are numbered as they first appear,
  /// from rank 0 on. Empty: the ranks are alike, or nobody knows.
  std::vector<std::vector<int>> groups;

  bool operator==(const Layout&) const = default;
  auto operator<=>(const Layout&) const = default;

  /// The ranks of each node, ascending; nodes in the order of their numbers. Without levels: one
  /// node with nobody.
  std::vector<std::vector<int>> nodes() const;
  /// Whether there are several nodes, and one of them has several ranks: then it matters who talks
  /// between nodes.
  bool clustered() const;
  /// What the levels below the first say of some ranks of one node, in the order given.
  Layout within(const std::vector<int>& ranks) const;
};

/// Groups of each level, by any numbers or names that are equal for ranks of one group.
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

/// The written form, of one of these kinds:
///   4x2     4 nodes of 2 ranks; 2x2x4: 2 nodes of 2 sockets of 4 ranks
///   3,1,4   nodes of 3, 1 and 4 ranks
///   0.1.0   the node of each rank, where nodes' ranks do not follow each other; deeper levels
///           stand behind '/', as in 0.0.1.1/0.1.2.2
/// "": nothing known. Throws Error(invalid_argument) that says what is wrong, and when the text
/// makes more or fewer ranks than `ranks` (0: as many as it makes).
Layout parseLayout(std::string_view text, int ranks = 0);

/// The shortest written form; "" for a layout without levels.
std::string text(const Layout& layout);

} // namespace rondo::plan
