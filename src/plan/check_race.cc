// Checks the obligation race: conflicting accesses of a chunk by several lanes of a rank are
// ordered.
//
// Happens-before is kept as vector clocks with one entry per lane of a rank: entry l of a step is
// the number of steps of lane l that are done before it starts. A first pass uses only the order
// within the rank. If that leaves a conflict, a second pass also follows messages through all
// ranks.
#include <algorithm>

#include "plan/check_parts.h"

namespace rondo::plan {
namespace {

/// Clocks of one rank's nodes, or of all nodes, in terms of one rank's lanes.
class Clocks {
 public:
  Clocks(const Graph& graph, std::span<const std::uint32_t> order, int rank, std::size_t lanes,
         bool through_messages)
      : lanes_(lanes), clocks_(graph.nodes().size() * lanes) {
    for (const auto n : order) {
      const Graph::Node& node = graph.nodes()[n];
      if (node.rank != rank && !through_messages) continue;
      if (!node.first) follow(graph, n, n - 1, rank);
      for (const Dependency& d : node.step->after) {
        follow(graph, n, graph.node(node.rank, d.lane, d.step), rank);
      }
      if (!through_messages) continue;
      for (const auto message : graph.received(n)) {
        if (message != Graph::kNone) follow(graph, n, graph.messages()[message].from, rank);
      }
      if (!node.step->is_barrier) continue;
      for (const auto there : graph.meeting(n))
        if (!graph.nodes()[there].first) follow(graph, n, there - 1, rank);
    }
  }

  bool before(const Graph& graph, std::uint32_t a, std::uint32_t b) const {
    const Graph::Node& node = graph.nodes()[a];
    return clocks_[b * lanes_ + node.lane] > node.index;
  }

 private:
  /// `n` starts after `earlier` is done.
  void follow(const Graph& graph, std::uint32_t n, std::uint32_t earlier, int rank) {
    const Graph::Node& node = graph.nodes()[earlier];
    for (std::size_t l = 0; l < lanes_; ++l) {
      auto& clock = clocks_[n * lanes_ + l];
      clock = std::max(clock, clocks_[earlier * lanes_ + l]);
    }
    if (node.rank != rank) return;
    auto& clock = clocks_[n * lanes_ + node.lane];
    clock = std::max(clock, node.index + 1);
  }

  std::size_t lanes_;
  std::vector<std::uint32_t> clocks_;
};

struct Access {
  std::uint32_t cell, node;
  bool writes;
  Piece piece;
};

struct Conflict {
  Access first, second;
  bool in_place;
};

std::vector<Access> accessesOf(const Graph& graph, const RankPlan& plan, const Memory& memory) {
  std::vector<Access> accesses;
  const auto add = [&](std::uint32_t node, const Piece& piece, bool writes) {
    for (std::uint32_t j = 0; j < piece.count; ++j) {
      accesses.push_back({memory.at(piece) + j, node, writes, piece});
    }
  };
  for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const auto& steps = plan.lanes[lane].steps;
    for (std::uint32_t s = 0; s < steps.size(); ++s) {
      const auto node = graph.node(plan.rank, lane, s);
      for (const Operand& operand : steps[s].inputs) {
        if (operand.local()) add(node, operand.piece, false);
      }
      if (steps[s].output && !copiesOntoItself(steps[s], memory)) add(node, *steps[s].output, true);
    }
  }
  return accesses;
}

/// Pairs of accesses by different lanes of which one writes.
std::vector<Conflict> conflictsOf(std::vector<Access> accesses, const Graph& graph, bool in_place) {
  std::stable_sort(accesses.begin(), accesses.end(),
                   [](const Access& a, const Access& b) { return a.cell < b.cell; });
  std::vector<Conflict> conflicts;
  for (auto begin = accesses.begin(); begin != accesses.end();) {
    const auto end =
        std::find_if(begin, accesses.end(), [&](const Access& a) { return a.cell != begin->cell; });
    for (auto a = begin; a != end; ++a) {
      for (auto b = a + 1; b != end; ++b) {
        if ((a->writes || b->writes) &&
            graph.nodes()[a->node].lane != graph.nodes()[b->node].lane) {
          conflicts.push_back({*a, *b, in_place});
        }
      }
    }
    begin = end;
  }
  return conflicts;
}

void removeOrdered(std::vector<Conflict>& conflicts, const Graph& graph, const Clocks& clocks) {
  std::erase_if(conflicts, [&](const Conflict& c) {
    return clocks.before(graph, c.first.node, c.second.node) ||
           clocks.before(graph, c.second.node, c.first.node);
  });
}

/// Reports a step that writes a piece which partly overlaps one that it reads: the pass over the
/// elements would read what it wrote.
void checkWithinSteps(const Graph& graph, const RankPlan& plan, const Memory& memory,
                      const Violations& violations) {
  for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const auto& steps = plan.lanes[lane].steps;
    for (std::uint32_t s = 0; s < steps.size(); ++s) {
      if (!steps[s].output) continue;
      const auto to = memory.at(*steps[s].output);
      for (const Operand& operand : steps[s].inputs) {
        if (!operand.local()) continue;
        const auto from = memory.at(operand.piece);
        const auto count = steps[s].shape.count;
        if (from == to || from + count <= to || to + count <= from) continue;
        violations.add(Obligation::race, graph.where(graph.node(plan.rank, lane, s)) + " writes " +
                                             text(*steps[s].output) + " over a part of " +
                                             text(operand.piece) + ", which it reads");
      }
    }
  }
}

void checkRank(const Graph& graph, std::span<const std::uint32_t> order, const RankPlan& plan,
               const Violations& violations) {
  std::vector<Conflict> conflicts;
  const bool in_place_too = hasInPlace(plan.spec, plan.rank);
  for (const bool in_place : {false, true}) {
    if (in_place && !in_place_too) break;
    const Memory memory = memoryOf(plan, in_place);
    checkWithinSteps(graph, plan, memory, violations);
    if (plan.lanes.size() < 2) continue;
    auto more = conflictsOf(accessesOf(graph, plan, memory), graph, in_place);
    conflicts.insert(conflicts.end(), more.begin(), more.end());
  }
  for (const bool through_messages : {false, true}) {
    if (conflicts.empty()) return;
    removeOrdered(conflicts, graph,
                  Clocks(graph, order, plan.rank, plan.lanes.size(), through_messages));
  }
  for (const Conflict& c : conflicts) {
    const auto verb = [](const Access& access) { return access.writes ? " writes " : " reads "; };
    violations.add(Obligation::race,
                   graph.where(c.first.node) + verb(c.first) + text(c.first.piece) + " while " +
                       graph.where(c.second.node) + verb(c.second) + text(c.second.piece) +
                       (c.in_place ? ", in place" : "") + ": no dependency orders them");
  }
}

} // namespace

bool hasInPlace(const Spec& spec, int rank) {
  return traits(spec.collective).in_place && inputBlocks(spec, rank) != 0 &&
         outputBlocks(spec, rank) != 0;
}

Memory memoryOf(const RankPlan& plan, bool in_place) {
  const auto k = plan.chunks_per_block;
  const auto inputs = inputBlocks(plan.spec, plan.rank) * k;
  const auto outputs = outputBlocks(plan.spec, plan.rank) * k;
  std::uint32_t input = 0, output = inputs, end = inputs + outputs;
  if (in_place && hasInPlace(plan.spec, plan.rank)) {
    const detail::CollectiveTraits& collective = traits(plan.spec.collective);
    output = static_cast<std::uint32_t>(collective.input.own(plan.rank)) * k;
    input = static_cast<std::uint32_t>(collective.output.own(plan.rank)) * k;
    end = std::max(inputs, outputs);
  }
  const auto window = end + plan.scratch_chunks;
  return {.begin = {input, output, end, window}, .cells = window + plan.window_chunks};
}

bool copiesOntoItself(const Step& step, const Memory& memory) {
  return step.output && step.inputs.size() == 1 && step.inputs[0].local() &&
         memory.at(step.inputs[0].piece) == memory.at(*step.output);
}

bool checkRaces(const Graph& graph, std::span<const std::uint32_t> order,
                const Violations& violations) {
  const auto before = violations.room();
  for (const RankPlan& plan : graph.plans()) checkRank(graph, order, plan, violations);
  checkWindows(graph, violations);
  return violations.room() == before;
}

} // namespace rondo::plan
