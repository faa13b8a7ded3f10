// Looks for writes between a step and the receivers of what it lends.
#include "plan/lend.h"

#include <optional>
#include <string>

#include "plan/check_parts.h"
#include "plan/graph.h"

namespace rondo::plan {

namespace {

/// Where the value lies when the step is done, if that is one lasting range.
std::optional<Piece> lent(const Step& step, const RankPlan& plan, bool scaled) {
  std::optional<Piece> piece = step.output;
  if (!piece && step.inputs.size() == 1 && step.inputs[0].local() &&
      !(scaled && step.inputs[0].piece.space == Space::input))
    piece = step.inputs[0].piece;
  if (piece && !isLastingRange(*piece, plan)) return {};
  return piece;
}

class Analysis {
 public:
  Analysis(const Graph& graph, bool through_messages)
      : graph_(graph), through_messages_(through_messages) {}

  /// Whether no step writes to the piece between the step and its receivers.
  bool stays(std::uint32_t node, const Piece& piece, const RankPlan& plan) const {
    for (const bool in_place : {false, true}) {
      if (in_place && !hasInPlace(plan.spec, plan.rank)) break;
      const Memory memory = memoryOf(plan, in_place);
      for (const std::uint32_t writer : writersOf(plan, memory, piece)) {
        if (writer == node || graph_.after(writer, false)[node]) continue;
        for (const std::uint32_t message : graph_.sent(node))
          if (!graph_.after(graph_.messages()[message].to, through_messages_)[writer]) return false;
      }
    }
    return true;
  }

 private:
  std::vector<std::uint32_t> writersOf(const RankPlan& plan, const Memory& memory,
                                       const Piece& piece) const {
    std::vector<std::uint32_t> writers;
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
      for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s) {
        const Step& step = plan.lanes[lane].steps[s];
        if (step.output && !copiesOntoItself(step, memory) && memory.overlap(piece, *step.output))
          writers.push_back(graph_.node(plan.rank, lane, s));
      }
    return writers;
  }

  const Graph& graph_;
  const bool through_messages_;
};

} // namespace

Lending::Lending(std::span<const RankPlan> plans, bool scaled, bool uneven) {
  std::vector<std::string> complaints; // none can occur: plans of the registry are proved
  const Graph graph(plans, complaints, 0);
  const Analysis analysis(graph, !uneven);
  for (const RankPlan& plan : plans) {
    auto& lanes = may_.emplace_back();
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      auto& steps = lanes.emplace_back();
      for (const Step& step : plan.lanes[lane].steps) {
        const auto index = static_cast<std::uint32_t>(steps.size());
        const auto piece = lent(step, plan, scaled);
        const bool may = !step.sends.empty() && piece &&
                         analysis.stays(graph.node(plan.rank, lane, index), *piece, plan);
        steps.push_back(may);
        always_ = always_ && (may || step.sends.empty());
      }
    }
  }
}

} // namespace rondo::plan
