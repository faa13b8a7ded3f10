// Finds the message that can announce where another one is put, and checks that the place is free.
#include "plan/put.h"

#include <algorithm>
#include <string>

#include "plan/check_parts.h"
#include "plan/graph.h"

namespace rondo::plan {

namespace {

/// Where the step stores its message, if it does nothing else and the place is one lasting range.
std::optional<Piece> storedAt(const Step& step, const RankPlan& plan) {
  if (step.inputs.size() != 1 || step.inputs[0].local() || !step.sends.empty()) return {};
  if (!step.output || !isLastingRange(*step.output, plan)) return {};
  return step.output;
}

/// The steps of a message that may be put, as indices of nodes of the graph.
struct Way {
  /// The receiver's step that announces the place, the sender's step that writes there, and the
  /// receiver's step that takes the message.
  std::uint32_t told, answers, receives;
  std::uint32_t input; ///< input of the sender's step that brings the announcement
};

class Search {
 public:
  explicit Search(const Graph& graph) : graph_(graph) {}

  /// How all messages of a step may be put; empty if they may not.
  std::vector<Way> ways(std::uint32_t node) const {
    std::vector<Way> ways;
    for (const std::uint32_t message : graph_.sent(node)) {
      const auto way = wayOf(node, graph_.messages()[message].to);
      const auto same = [&](const Way& other) { return other.input == way->input; };
      if (!way || std::any_of(ways.begin(), ways.end(), same)) return {};
      ways.push_back(*way);
    }
    return ways;
  }

 private:
  const RankPlan& planOf(std::uint32_t node) const {
    return graph_.plans()[static_cast<std::size_t>(graph_.nodes()[node].rank)];
  }

  std::optional<Way> wayOf(std::uint32_t answers, std::uint32_t receives) const {
    const RankPlan& plan = planOf(receives);
    const auto piece = storedAt(*graph_.nodes()[receives].step, plan);
    if (!piece) return {};
    const auto inputs = graph_.received(answers);
    for (std::uint32_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == Graph::kNone) continue;
      const Way way{graph_.messages()[inputs[i]].from, answers, receives, i};
      if (graph_.nodes()[way.told].rank == plan.rank && graph_.sent(way.told).size() == 1 &&
          isFree(*piece, way, plan))
        return way;
    }
    return {};
  }

  /// Whether only the sender's step touches the piece between the two steps of the receiver.
  bool isFree(const Piece& piece, const Way& way, const RankPlan& plan) const {
    const std::vector<bool> behind = graph_.after(way.receives, false);
    for (const bool in_place : {false, true}) {
      if (in_place && !hasInPlace(plan.spec, plan.rank)) break;
      const Memory memory = memoryOf(plan, in_place);
      const auto meets = [&](const Piece& other) { return memory.overlap(piece, other); };
      for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
        for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s) {
          const Step& step = plan.lanes[lane].steps[s];
          const std::uint32_t node = graph_.node(plan.rank, lane, s);
          const bool there = (step.output && meets(*step.output)) ||
                             std::any_of(step.inputs.begin(), step.inputs.end(), [&](auto& input) {
                               return input.local() && meets(input.piece);
                             });
          if (!there || node == way.receives || behind[node]) continue;
          if (node != way.told && !graph_.after(node, false)[way.told]) return false;
          if (!allHaveRead(node, way)) return false;
        }
    }
    return true;
  }

  /// Whether all ranks that may read from the step's memory have done so before the answering step
  /// writes. The answering step may read there itself: pieces of a step and of its messages are
  /// congruent, so overlapping pieces are equal, and it reads each element before it writes it.
  bool allHaveRead(std::uint32_t node, const Way& way) const {
    for (const std::uint32_t message : graph_.sent(node)) {
      const std::uint32_t reader = graph_.messages()[message].to;
      if (reader != way.answers && !graph_.after(reader, true)[way.answers]) return false;
    }
    return true;
  }

  const Graph& graph_;
};

} // namespace

Puts::Puts(std::span<const RankPlan> plans) {
  std::vector<std::string> complaints; // none can occur: plans of the registry are proved
  const Graph graph(plans, complaints, 0);
  const Search search(graph);
  for (const RankPlan& plan : plans) {
    auto& lanes = parts_.emplace_back();
    for (const Lane& lane : plan.lanes) lanes.emplace_back(lane.steps.size());
  }
  const auto part = [&](std::uint32_t node) -> StepPut& {
    const Graph::Node& at = graph.nodes()[node];
    return parts_[static_cast<std::size_t>(at.rank)][at.lane][at.index];
  };
  for (std::uint32_t node = 0; node < graph.nodes().size(); ++node) {
    const std::vector<Way> ways = search.ways(node);
    const auto taken = [&](const Way& way) { return part(way.told).announces.has_value(); };
    if (std::any_of(ways.begin(), ways.end(), taken)) continue; // a message announces one place
    for (const Way& way : ways) {
      part(node).address_inputs.push_back(way.input);
      const Graph::Node& receives = graph.nodes()[way.receives];
      part(way.told).announces = Dependency{receives.lane, receives.index};
      part(way.receives).written_by_sender = true;
    }
  }
}

} // namespace rondo::plan
