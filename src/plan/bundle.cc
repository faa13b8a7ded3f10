// Builds bundles step by step, as long as the next step fits.
#include "plan/bundle.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plan/check_parts.h"
#include "plan/graph.h"

namespace rondo::plan {

namespace {

enum class Kind : std::uint8_t { sends, receives, other };

/// The only piece of memory of a step that only sends or receives.
const Piece& pieceOf(const Step& step) { return step.output ? *step.output : step.inputs[0].piece; }

Kind kindOf(const Step& step, const RankPlan& plan) {
  if (step.inputs.size() != 1) return Kind::other;
  const bool local = step.inputs[0].local();
  if (local ? step.output || step.sends.empty() : !step.output || !step.sends.empty())
    return Kind::other;
  if (!liesInOneBlock(pieceOf(step), plan)) return Kind::other;
  return local ? Kind::sends : Kind::receives;
}

class Bundler {
 public:
  explicit Bundler(const RankPlan& plan) : plan_(plan), messages_(plan.channels.size()) {
    for (const Lane& lane : plan.lanes)
      for (const Step& step : lane.steps) {
        forEachChannel(step, [&](std::size_t channel) { ++messages_[channel]; });
        for (const Dependency& before : step.after) awaited_.emplace(before.lane, before.step);
      }
  }

  std::vector<std::uint32_t> sizes(std::uint32_t lane) const {
    const std::vector<Step>& steps = plan_.lanes[lane].steps;
    std::vector<std::uint32_t> sizes(steps.size(), 0);
    for (std::uint32_t first = 0; first < steps.size(); first += sizes[first]) {
      sizes[first] = 1;
      while (first + sizes[first] < steps.size() && fits(lane, first, sizes[first])) ++sizes[first];
    }
    return sizes;
  }

 private:
  template <class Visit>
  static void forEachChannel(const Step& step, const Visit& visit) {
    for (const Operand& input : step.inputs)
      if (!input.local()) visit(static_cast<std::size_t>(input.channel));
    for (const int channel : step.sends) visit(static_cast<std::size_t>(channel));
  }

  /// Whether the step after those of a bundle can join it.
  bool fits(std::uint32_t lane, std::uint32_t first, std::uint32_t size) const {
    const std::vector<Step>& steps = plan_.lanes[lane].steps;
    const Step& next = steps[first + size];
    const Kind kind = kindOf(next, plan_);
    if (kind == Kind::other || kind != kindOf(steps[first], plan_)) return false;
    if (!next.after.empty() || awaited_.contains({lane, first + size - 1})) return false;
    std::size_t places = 1 + std::max<std::size_t>(next.sends.size(), 1);
    for (std::uint32_t s = first; s < first + size; ++s) {
      places += 1 + std::max<std::size_t>(steps[s].sends.size(), 1);
      if (kind == Kind::receives && overlap(pieceOf(steps[s]), pieceOf(next))) return false;
    }
    return places <= Bundles::kMostPlaces && carriesOne(steps[first]) && carriesOne(next);
  }
  /// Whether all channels of the step carry one message per tile.
  bool carriesOne(const Step& step) const {
    bool one = true;
    forEachChannel(step, [&](std::size_t channel) { one = one && messages_[channel] == 1; });
    return one;
  }

  const RankPlan& plan_;
  std::vector<std::uint32_t> messages_; ///< of each channel, per tile
  std::set<std::pair<std::uint32_t, std::uint32_t>> awaited_;
};

} // namespace

Bundles::Bundles(const RankPlan& plan) {
  const Bundler bundler(plan);
  for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
    sizes_.push_back(bundler.sizes(lane));
}

std::vector<std::uint32_t> bundledNodes(const Graph& graph) {
  std::vector<std::uint32_t> first;
  first.reserve(graph.nodes().size());
  for (const RankPlan& plan : graph.plans()) {
    const Bundles bundles(plan);
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
      for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s)
        first.push_back(bundles.size(lane, s) > 0 ? static_cast<std::uint32_t>(first.size())
                                                  : first.back());
  }
  return first;
}

} // namespace rondo::plan
