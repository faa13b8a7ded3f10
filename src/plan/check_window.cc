// Checks the part of the obligation race that concerns windows: accesses by several ranks.
//
// A window serves one tile after the other, of this plan and of the next one, and no message tells
// its owner that other ranks are done with it. So each step that touches all ranks' windows needs
// two barriers in its lane: one before it, after which every owner has entered the tile, and one
// after it, before which no owner leaves the tile. Then all accesses to a window in a tile lie
// between its owner's entry and exit, and tiles follow each other, whatever their plans. What
// remains to be checked is the order within a tile.
#include <map>
#include <vector>

#include "plan/check_parts.h"

namespace rondo::plan {
namespace {

/// A step's access to a piece of its own rank's window, or of all ranks' windows.
struct WindowAccess {
  std::uint32_t node;
  Piece piece;
  bool writes, all;
};

std::vector<WindowAccess> accessesOf(const Graph& graph) {
  std::vector<WindowAccess> accesses;
  for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) {
    const Step& step = *graph.nodes()[n].step;
    for (const Operand& operand : step.inputs)
      if (operand.local() && operand.piece.space == Space::window)
        accesses.push_back({n, operand.piece, false, operand.of_all});
    if (step.output && step.output->space == Space::window)
      accesses.push_back({n, *step.output, true, step.to_all});
  }
  return accesses;
}

bool meetsBetween(const Graph& graph, std::uint32_t first, std::uint32_t end) {
  for (std::uint32_t n = first; n < end; ++n)
    if (graph.nodes()[n].step->is_barrier) return true;
  return false;
}

void checkTile(const Graph& graph, std::uint32_t node, const Violations& violations) {
  std::uint32_t first = node, end = node + 1;
  while (!graph.nodes()[first].first) --first;
  while (end < graph.nodes().size() && !graph.nodes()[end].first) ++end;
  if (!meetsBetween(graph, first, node))
    violations.add(Obligation::race, graph.where(node) +
                                         " touches windows of ranks that may still be in the tile "
                                         "before: no barrier precedes it");
  if (!meetsBetween(graph, node, end))
    violations.add(Obligation::race, graph.where(node) +
                                         " touches windows of ranks that may be in the next tile: "
                                         "no barrier follows it");
}

} // namespace

bool checkWindows(const Graph& graph, const Violations& violations) {
  const auto before = violations.room();
  const std::vector<WindowAccess> accesses = accessesOf(graph);
  std::map<std::uint32_t, std::vector<bool>> after; // all nodes after each of them
  for (const WindowAccess& access : accesses)
    if (!after.contains(access.node)) after[access.node] = graph.after(access.node, true);
  for (const WindowAccess& one : accesses) {
    if (!one.all) continue;
    checkTile(graph, one.node, violations);
    for (const WindowAccess& other : accesses) {
      const bool known = other.all && &other < &one; // this pair has been checked
      if (known || (!one.writes && !other.writes) || !overlap(one.piece, other.piece) ||
          graph.nodes()[one.node].rank == graph.nodes()[other.node].rank)
        continue;
      if (after[one.node][other.node] || after[other.node][one.node]) continue;
      const auto what = [&](const WindowAccess& access) {
        return graph.where(access.node) + (access.writes ? " writes " : " reads ") +
               text(access.piece) + (access.all ? " of all ranks" : "");
      };
      violations.add(Obligation::race,
                     what(one) + " while " + what(other) + ": no dependency orders them");
    }
  }
  return violations.room() == before;
}

} // namespace rondo::plan
