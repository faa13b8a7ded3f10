#include "train/parallel/pipeline/simulate.h"

#include <algorithm>
#include <map>
#include <optional>

namespace rondo::training {

PassCosts PassCosts::even(const PipelineShape& shape, double forward, double backward) {
  const auto parts = static_cast<std::size_t>(shape.parts());
  return {std::vector<double>(parts, forward), std::vector<double>(parts, backward)};
}

double SimulatedStep::idle() const {
  double busy = 0;
  for (const auto& rank : ranks)
    for (const TimedOperation& one : rank) busy += one.end - one.begin;
  return 1 - busy / (makespan * static_cast<double>(ranks.size()));
}

namespace {

/// Repeatedly runs each rank as far as its inputs allow. The begin of a pass depends only on its
/// inputs, not on the order in which ranks are visited.
class Simulation {
 public:
  Simulation(const Timetable& timetable, const PassCosts& costs)
      : timetable_(timetable),
        costs_(costs),
        next_(timetable.ranks.size()),
        now_(timetable.ranks.size()) {
    step_.ranks.resize(timetable.ranks.size());
  }

  SimulatedStep run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank)
        while (next_[rank] < timetable_.ranks[rank].size() && advance(rank)) moved = true;
    }
    step_.makespan = *std::max_element(now_.begin(), now_.end());
    return std::move(step_);
  }

 private:
  bool advance(std::size_t rank) {
    const Operation& operation = timetable_.ranks[rank][next_[rank]];
    const double takes = costOf(operation);
    if (takes >= 0) {
      const auto ready = readyAt(operation);
      if (!ready) return false;
      const double begin = std::max(now_[rank], *ready);
      now_[rank] = begin + takes;
      ends_[{operation.task, {operation.micro, operation.part}}] = now_[rank];
      step_.ranks[rank].push_back({operation, begin, now_[rank]});
    }
    ++next_[rank];
    return true;
  }

  /// Negative if the operation is not a pass.
  double costOf(const Operation& operation) const {
    const auto part = static_cast<std::size_t>(operation.part);
    if (operation.task == Task::backward) return costs_.backward[part];
    if (operation.task == Task::forward || operation.task == Task::recompute)
      return costs_.forward[part];
    return -1;
  }

  std::optional<double> readyAt(const Operation& operation) const {
    const auto [task, micro, part] = operation;
    const int from = part + (task == Task::forward ? -1 : 1);
    if (task == Task::recompute || from < 0 || from == timetable_.shape.parts()) return 0;
    const auto end = ends_.find({task, {micro, from}});
    return end == ends_.end() ? std::nullopt : std::optional(end->second);
  }

  const Timetable& timetable_;
  const PassCosts& costs_;
  std::vector<std::size_t> next_; ///< index of the next operation of each rank
  std::vector<double> now_;       ///< current time of each rank
  std::map<std::pair<Task, std::pair<int, int>>, double> ends_;
  SimulatedStep step_;
};

} // namespace

SimulatedStep simulate(const Timetable& timetable, const PassCosts& costs) {
  return Simulation(timetable, costs).run();
}

} // namespace rondo::training
