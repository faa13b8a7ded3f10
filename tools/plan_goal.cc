// Numbers the operations of each rank, and connects them as the lanes do.
#include "tools/plan_goal.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/check.h"
#include "rondo/error.h"

namespace rondo::tools {

namespace {

class GoalRank {
 public:
  GoalRank(const plan::RankPlan& plan, double bytes, const model::Profile& profile)
      : plan_(plan),
        chunk_(bytes / plan.chunks_per_block),
        reduce_(profile.reduceOf(4).at(bytes * (plan::inputBlocks(plan.spec, plan.rank) +
                                                plan::outputBlocks(plan.spec, plan.rank)))) {}

  std::string text() {
    // Every step's `calc` is numbered first, because a step may wait for a later lane's.
    for (const plan::Lane& lane : plan_.lanes) {
      auto& numbers = calcs_.emplace_back();
      for (std::size_t s = 0; s < lane.steps.size(); ++s) numbers.push_back(++last_);
    }
    for (std::size_t lane = 0; lane < plan_.lanes.size(); ++lane)
      for (std::size_t s = 0; s < plan_.lanes[lane].steps.size(); ++s) add(lane, s);
    return "rank " + std::to_string(plan_.rank) + " {\n" + operations_ + requires_ + "}\n";
  }

 private:
  static std::string label(int number) { return "l" + std::to_string(number); }
  void require(int later, int earlier) {
    requires_ += label(later) + " requires " + label(earlier) + "\n";
  }

  void add(std::size_t lane, std::size_t s) {
    const plan::Step& step = plan_.lanes[lane].steps[s];
    if (step.is_barrier || step.to_all || (!step.inputs.empty() && step.inputs[0].of_all))
      throw Error(ErrorCode::unsupported, "GOAL has no barriers and no switch");
    const double bytes = step.shape.count * chunk_;
    // A message of GOAL has at least one byte.
    const std::string size = std::to_string(std::max(std::llround(bytes), 1LL)) + "b";
    const int calc = calcs_[lane][s];
    const auto operands = static_cast<double>(step.inputs.size());
    const double seconds = (operands - 1) * bytes * reduce_;
    operations_ += label(calc) + ": calc " + std::to_string(std::llround(seconds * 1e9)) + "\n";
    if (s > 0) require(calc, calcs_[lane][s - 1]);
    for (const plan::Dependency& after : step.after) require(calc, calcs_[after.lane][after.step]);
    for (const plan::Operand& input : step.inputs) {
      if (input.local()) continue;
      const plan::Channel& channel = plan_.channels[static_cast<std::size_t>(input.channel)];
      operations_ += label(++last_) + ": recv " + size + " from " + std::to_string(channel.src) +
                     " tag " + std::to_string(channel.index) + "\n";
      require(calc, last_);
    }
    for (const int number : step.sends) {
      const plan::Channel& channel = plan_.channels[static_cast<std::size_t>(number)];
      operations_ += label(++last_) + ": send " + size + " to " + std::to_string(channel.dst) +
                     " tag " + std::to_string(channel.index) + "\n";
      require(last_, calc);
    }
  }

  const plan::RankPlan& plan_;
  const double chunk_, reduce_;         ///< bytes; seconds of reducing a byte, as in a simulation
  std::vector<std::vector<int>> calcs_; ///< number of the calc of each step, by lane
  int last_ = 0;
  std::string operations_, requires_;
};

} // namespace

std::string goalText(const plan::Algorithm& algorithm, const plan::Spec& spec, double bytes,
                     const model::Profile& profile) {
  std::string text = "num_ranks " + std::to_string(spec.ranks) + "\n";
  for (const plan::RankPlan& plan : plan::buildAll(algorithm, spec))
    text += "\n" + GoalRank(plan, bytes, profile).text();
  return text;
}

} // namespace rondo::tools
