// Checks the obligation race: conflicting accesses of a chunk by several lanes of a rank are
// ordered.
//
// Happens-before is kept as vector clocks with one entry per lane of a rank: entry l of a step is
// the number of steps of lane l that are done before it starts. A first pass uses only the order
// within the rank. If that leaves a conflict, a second pass also follows messages through all
// ranks.
#include <algorithm>
#include <array>

#include "plan/check_parts.h"

namespace rondo::plan {
namespace {

/// Clocks of the nodes in `order`, in terms of one rank's lanes. The nodes' numbers are contiguous:
/// those of the rank, or with `through_messages` all.
class Clocks {
 public:
  Clocks(const Graph& graph, std::span<const std::uint32_t> order, int rank, std::size_t lanes,
         bool through_messages)
      : lanes_(lanes),
        first_(order.empty() ? 0 : *std::ranges::min_element(order)),
        clocks_(order.size() * lanes) {
    for (const auto n : order) {
      const Graph::Node& node = graph.nodes()[n];
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
    return clocks_[at(b, node.lane)] > node.index;
  }

 private:
  std::size_t at(std::uint32_t node, std::size_t lane) const {
    return (node - first_) * lanes_ + lane;
  }
  /// `n` starts after `earlier` is done.
  void follow(const Graph& graph, std::uint32_t n, std::uint32_t earlier, int rank) {
    const Graph::Node& node = graph.nodes()[earlier];
    for (std::size_t l = 0; l < lanes_; ++l) {
      auto& clock = clocks_[at(n, l)];
      clock = std::max(clock, clocks_[at(earlier, l)]);
    }
    if (node.rank != rank) return;
    auto& clock = clocks_[at(n, node.lane)];
    clock = std::max(clock, node.index + 1);
  }

  std::size_t lanes_;
  std::uint32_t first_;
  std::vector<std::uint32_t> clocks_;
};

struct Access {
  std::uint32_t cell, node;
  bool writes;
  Piece piece;
};

/// In the order of cells.
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
  std::stable_sort(accesses.begin(), accesses.end(),
                   [](const Access& a, const Access& b) { return a.cell < b.cell; });
  return accesses;
}

/// Calls visit(a, b) for all pairs of accesses by different lanes of which one writes, until it
/// returns false. There may be too many pairs to keep them.
void forEachConflict(const std::vector<Access>& accesses, const Graph& graph, const auto& visit) {
  for (auto begin = accesses.begin(); begin != accesses.end();) {
    const auto end =
        std::find_if(begin, accesses.end(), [&](const Access& a) { return a.cell != begin->cell; });
    for (auto a = begin; a != end; ++a)
      for (auto b = a + 1; b != end; ++b)
        if ((a->writes || b->writes) &&
            graph.nodes()[a->node].lane != graph.nodes()[b->node].lane && !visit(*a, *b))
          return;
    begin = end;
  }
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

void report(const Access& a, const Access& b, bool in_place, const Graph& graph,
            const Violations& violations) {
  const auto verb = [](const Access& access) { return access.writes ? " writes " : " reads "; };
  violations.add(Obligation::race, graph.where(a.node) + verb(a) + text(a.piece) + " while " +
                                       graph.where(b.node) + verb(b) + text(b.piece) +
                                       (in_place ? ", in place" : "") +
                                       ": no dependency orders them");
}

/// Accesses out of place, and in place if that is allowed.
using BothAccesses = std::array<std::vector<Access>, 2>;

/// Whether the order within the rank, or with `through_messages` within all ranks, orders all
/// conflicts. `violations`: where to report those that are not ordered; may be null.
bool ordersAll(const Graph& graph, std::span<const std::uint32_t> order, const RankPlan& plan,
               const BothAccesses& accesses, bool through_messages, const Violations* violations) {
  const Clocks clocks(graph, order, plan.rank, plan.lanes.size(), through_messages);
  bool all = true;
  for (const bool in_place : {false, true})
    forEachConflict(accesses[in_place], graph, [&](const Access& a, const Access& b) {
      if (clocks.before(graph, a.node, b.node) || clocks.before(graph, b.node, a.node)) return true;
      all = false;
      if (violations) report(a, b, in_place, graph, *violations);
      return violations && !violations->full();
    });
  return all;
}

/// `own`: the rank's part of `order`.
void checkRank(const Graph& graph, std::span<const std::uint32_t> order,
               std::span<const std::uint32_t> own, const RankPlan& plan,
               const Violations& violations) {
  BothAccesses accesses;
  bool conflict = false;
  for (const bool in_place : {false, true}) {
    if (in_place && !hasInPlace(plan.spec, plan.rank)) break;
    const Memory memory = memoryOf(plan, in_place);
    checkWithinSteps(graph, plan, memory, violations);
    if (plan.lanes.size() < 2) continue;
    accesses[in_place] = accessesOf(graph, plan, memory);
    forEachConflict(accesses[in_place], graph,
                    [&](const Access&, const Access&) { return !(conflict = true); });
  }
  if (conflict && !ordersAll(graph, own, plan, accesses, false, nullptr))
    ordersAll(graph, order, plan, accesses, true, &violations);
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
  std::vector<std::vector<std::uint32_t>> own(graph.plans().size());
  for (const auto n : order) own[static_cast<std::size_t>(graph.nodes()[n].rank)].push_back(n);
  for (std::size_t r = 0; r < own.size(); ++r)
    checkRank(graph, order, own[r], graph.plans()[r], violations);
  checkWindows(graph, violations);
  return violations.room() == before;
}

} // namespace rondo::plan
