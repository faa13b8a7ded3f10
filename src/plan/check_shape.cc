// Checks the obligations well_formed and matching.
#include <algorithm>
#include <utility>

#include "plan/check_parts.h"
#include "rondo/error.h"

namespace rondo::plan {
namespace {

std::string rankText(int rank) { return "rank " + std::to_string(rank); }

/// Checks one rank's plan.
class RankShape {
 public:
  RankShape(const RankPlan& plan, const Violations& violations)
      : plan_(plan),
        violations_(violations),
        users_(plan.channels.size(), kUnused),
        last_uses_(plan.channels.size()) {}

  void check() {
    checkChannels();
    for (lane_ = 0; lane_ < plan_.lanes.size(); ++lane_) {
      const auto& steps = plan_.lanes[lane_].steps;
      for (step_ = 0; step_ < steps.size(); ++step_) checkStep(steps[step_]);
    }
    for (std::size_t c = 0; c < users_.size(); ++c) {
      if (users_[c] == kUnused) {
        complain(rankText(plan_.rank) + " lists channel " + text(plan_.channels[c]) +
                 " but no step uses it");
      }
    }
  }

 private:
  static constexpr std::int64_t kUnused = -1;

  void complain(std::string text) { violations_.add(Obligation::well_formed, std::move(text)); }
  void complainStep(const std::string& text) {
    complain(rankText(plan_.rank) + " lane " + std::to_string(lane_) + " step " +
             std::to_string(step_) + " " + text);
  }

  void checkChannels() {
    for (const Channel& c : plan_.channels) {
      const auto valid = [&](int rank) { return rank >= 0 && rank < plan_.spec.ranks; };
      if (!valid(c.src) || !valid(c.dst) || c.src == c.dst || c.index < 0 ||
          (c.src != plan_.rank && c.dst != plan_.rank)) {
        complain(rankText(plan_.rank) + " lists channel " + text(c) + ", which cannot be its own");
      }
    }
    auto sorted = plan_.channels;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      complain(rankText(plan_.rank) + " lists channel " + text(*twice) + " twice");
    }
  }

  void useChannel(int channel, bool sends, const Step& step) {
    if (channel < 0 || static_cast<std::size_t>(channel) >= plan_.channels.size()) {
      complainStep("uses channel number " + std::to_string(channel) + " of " +
                   std::to_string(plan_.channels.size()));
      return;
    }
    const auto index = static_cast<std::size_t>(channel);
    const Channel& c = plan_.channels[index];
    if ((sends ? c.src : c.dst) != plan_.rank) {
      complainStep((sends ? "sends on channel " : "receives from channel ") + text(c) +
                   ", which has the opposite direction");
    }
    if (std::exchange(last_uses_[index], &step) == &step) {
      complainStep("uses channel " + text(c) + " twice");
    }
    if (users_[index] != kUnused && users_[index] != static_cast<std::int64_t>(lane_)) {
      complainStep("uses channel " + text(c) + ", which lane " + std::to_string(users_[index]) +
                   " uses too");
    }
    users_[index] = static_cast<std::int64_t>(lane_);
  }

  void checkPiece(const Step& step, const Piece& piece) {
    std::uint64_t size = plan_.scratch_chunks;
    if (piece.space == Space::window) {
      size = plan_.window_chunks;
      useWindows();
    } else if (piece.space == Space::input) {
      size = std::uint64_t{inputBlocks(plan_.spec, plan_.rank)} * plan_.chunks_per_block;
    } else if (piece.space == Space::output) {
      size = std::uint64_t{outputBlocks(plan_.spec, plan_.rank)} * plan_.chunks_per_block;
    }
    if (std::uint64_t{piece.chunk} + piece.count > size) {
      complainStep("touches " + text(piece) + " of a space of " + std::to_string(size) + " chunks");
    }
    const auto k = plan_.chunks_per_block;
    if (piece.count != step.shape.count || piece.chunk % k != step.shape.chunk % k) {
      complainStep("touches " + text(piece) + ", whose shape is not that of the step, [" +
                   std::to_string(step.shape.chunk) + "] with count " +
                   std::to_string(step.shape.count));
    }
  }

  /// The step touches windows or is a barrier.
  void useWindows() {
    if (!plan_.spec.multicast) complainStep("uses windows, which these ranks do not have");
    if (window_lane_ != kUnused && window_lane_ != static_cast<std::int64_t>(lane_))
      complainStep("uses windows, which lane " + std::to_string(window_lane_) + " uses too");
    window_lane_ = static_cast<std::int64_t>(lane_);
  }

  void checkMeeting(const Step& step) {
    useWindows();
    if (!step.inputs.empty() || step.output || !step.sends.empty() || !step.after.empty() ||
        step.to_all || step.shape.count != 0)
      complainStep("is a barrier, but does something else too");
  }

  /// Checks operations on all ranks' windows.
  void checkAll(const Step& step) {
    const auto sums = [](const Operand& operand) { return operand.of_all; };
    const bool sum = std::any_of(step.inputs.begin(), step.inputs.end(), sums);
    for (const Operand& operand : step.inputs)
      if (operand.of_all && (!operand.local() || operand.piece.space != Space::window))
        complainStep("sums a piece that is not in a window");
    if (sum && step.inputs.size() > 1)
      complainStep("has more operands than the sum of all windows");
    if (sum && !step.sends.empty()) complainStep("sends the sum of all windows");
    if (!step.to_all) return;
    if (!step.output || step.output->space != Space::window)
      complainStep("stores to all ranks, but not into a window");
    if (!step.sends.empty() || step.inputs.size() != 1 || !step.inputs[0].local())
      complainStep(
          "stores to all ranks a value that is neither a sum of windows nor a local piece");
  }

  void checkStep(const Step& step) {
    if (step.is_barrier) return checkMeeting(step);
    checkAll(step);
    if (step.inputs.empty()) complainStep("has no input");
    if (step.shape.count == 0) complainStep("has no chunks");
    bool communicates = !step.sends.empty();
    for (const Operand& operand : step.inputs) {
      if (operand.local()) {
        checkPiece(step, operand.piece);
      } else {
        useChannel(operand.channel, false, step);
        communicates = true;
      }
    }
    for (const int channel : step.sends) useChannel(channel, true, step);
    if (communicates && step.shape.count > plan_.message_chunks) {
      complainStep("has a message of " + std::to_string(step.shape.count) +
                   " chunks, the plan at most " + std::to_string(plan_.message_chunks));
    }
    if (step.output) {
      checkPiece(step, *step.output);
      if (step.output->space == Space::input) {
        complainStep("writes " + text(*step.output) + ", but input is read only");
      }
    }
    for (const Dependency& d : step.after) {
      if (d.lane >= plan_.lanes.size() || d.step >= plan_.lanes[d.lane].steps.size()) {
        complainStep("waits for lane " + std::to_string(d.lane) + " step " +
                     std::to_string(d.step) + ", which does not exist");
      }
    }
  }

  const RankPlan& plan_;
  const Violations& violations_;
  std::vector<std::int64_t> users_;    ///< the lane that uses each channel
  std::vector<const Step*> last_uses_; ///< the last step that uses each channel
  std::int64_t window_lane_ = kUnused;
  std::size_t lane_ = 0, step_ = 0;
};

/// Each channel must be listed by both of its ranks.
void checkEnds(std::span<const RankPlan> plans, const Violations& violations) {
  std::vector<Channel> ends;
  for (const RankPlan& plan : plans) {
    ends.insert(ends.end(), plan.channels.begin(), plan.channels.end());
  }
  std::sort(ends.begin(), ends.end());
  for (std::size_t i = 0; i < ends.size();) {
    if (i + 1 < ends.size() && ends[i] == ends[i + 1]) {
      i += 2;
      continue;
    }
    violations.add(Obligation::well_formed,
                   "channel " + text(ends[i]) + " is listed by only one of its ranks");
    ++i;
  }
}

} // namespace

std::string text(const Piece& piece) {
  constexpr std::string_view kNames[] = {"in", "out", "scratch", "window"};
  std::string result(kNames[static_cast<std::size_t>(piece.space)]);
  result += "[" + std::to_string(piece.chunk);
  if (piece.count != 1) result += ".." + std::to_string(piece.chunk + piece.count - 1);
  return result + "]";
}

bool checkWellFormed(std::span<const RankPlan> plans, const Violations& violations) {
  const auto before = violations.room();
  const auto complain = [&](const std::string& text) {
    violations.add(Obligation::well_formed, text);
  };
  const RankPlan& first = plans[0];
  if (first.spec.ranks != static_cast<int>(plans.size())) {
    complain("there are " + std::to_string(plans.size()) + " plans for " +
             std::to_string(first.spec.ranks) + " ranks");
  }
  if (first.chunks_per_block == 0) complain("blocks have no chunks");
  for (const auto& groups : first.spec.layout.groups)
    if (groups.size() != plans.size())
      complain("the layout has " + std::to_string(groups.size()) + " ranks, not " +
               std::to_string(plans.size()));
  for (std::size_t r = 0; r < plans.size(); ++r) {
    const RankPlan& plan = plans[r];
    if (plan.rank != static_cast<int>(r)) {
      complain("plan " + std::to_string(r) + " has the rank number " + std::to_string(plan.rank));
    }
    if (plan.spec != first.spec) complain(rankText(plan.rank) + " has another spec than rank 0");
    if (plan.chunks_per_block != first.chunks_per_block) {
      complain(rankText(plan.rank) + " cuts blocks into " + std::to_string(plan.chunks_per_block) +
               " chunks, rank 0 into " + std::to_string(first.chunks_per_block));
    }
    if (plan.window_chunks != first.window_chunks) {
      complain(rankText(plan.rank) + " has a window of " + std::to_string(plan.window_chunks) +
               " chunks, rank 0 one of " + std::to_string(first.window_chunks));
    }
    if (plan.window_chunks > plan.message_chunks && plan.window_chunks > 0) {
      complain(rankText(plan.rank) + " has a window of " + std::to_string(plan.window_chunks) +
               " chunks, which cuts tiles for " + std::to_string(plan.message_chunks));
    }
    if (plan.message_chunks != first.message_chunks) {
      complain(rankText(plan.rank) + " has messages of up to " +
               std::to_string(plan.message_chunks) + " chunks, rank 0 of up to " +
               std::to_string(first.message_chunks));
    }
  }
  if (violations.room() < before) return false;
  for (const RankPlan& plan : plans) RankShape(plan, violations).check();
  if (violations.room() < before) return false;
  checkEnds(plans, violations);
  return violations.room() == before;
}

std::optional<Graph> checkMatching(std::span<const RankPlan> plans, const Violations& violations) {
  std::vector<std::string> complaints;
  Graph graph(plans, complaints, violations.room());
  for (std::string& complaint : complaints) {
    violations.add(Obligation::matching, std::move(complaint));
  }
  if (!complaints.empty()) return {};
  return graph;
}

Graph wholeGraph(std::span<const RankPlan> plans) {
  Report report;
  const Violations violations(report, 1);
  if (plans.empty()) {
    violations.add(Obligation::well_formed, "there are no plans");
  } else if (checkWellFormed(plans, violations)) {
    auto graph = checkMatching(plans, violations);
    if (graph && graph->order().size() == graph->nodes().size()) return std::move(*graph);
    if (graph) violations.add(Obligation::deadlock, "the steps wait for each other in a cycle");
  }
  throw Error(ErrorCode::invalid_argument,
              "these plans cannot run: " + report.violations.front().text);
}

} // namespace rondo::plan
