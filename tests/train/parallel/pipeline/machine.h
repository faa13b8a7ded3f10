// An independent checker of timetables: executes them with tokens as data.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "train/parallel/pipeline/timetable.h"

namespace rondo::test {

using training::Operation;
using training::PipelineShape;
using training::Task;
using training::Timetable;

/// For timetables of training steps. Channels hold one message; a send waits for an empty channel,
/// a receive waits for its message.
class Machine {
 public:
  explicit Machine(const Timetable& timetable)
      : timetable_(timetable), next_(timetable.ranks.size()), updated_(timetable.ranks.size()) {}

  /// Whether all ranks finish, and all operations were correct and complete.
  bool runs() {
    const auto& ranks = timetable_.ranks;
    for (bool moved = true; moved && !wrong_;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        while (!wrong_ && next_[rank] < ranks[rank].size() &&
               step(static_cast<int>(rank), ranks[rank][next_[rank]])) {
          ++next_[rank];
          moved = true;
        }
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (next_[rank] < ranks[rank].size() || !updated_[rank]) return false;
    const auto passes = static_cast<std::size_t>(timetable_.shape.micro_batches) *
                        static_cast<std::size_t>(timetable_.shape.parts());
    return !wrong_ && forwards_.size() == passes && backs_.size() == passes && unused_.empty() &&
           slots_.empty();
  }

 private:
  using Token = std::tuple<Task, int, int>; ///< the kind of message, its micro-batch and part

  bool wrong() {
    wrong_ = true;
    return true;
  }

  /// Returns false if the operation has to wait.
  bool step(int rank, const Operation& operation) {
    const auto [task, micro, part] = operation;
    const auto own = static_cast<std::size_t>(rank);
    if (task == Task::update) {
      if (updated_[own]) return wrong();
      updated_[own] = true;
      return true;
    }
    const PipelineShape& shape = timetable_.shape;
    if (micro < 0 || micro >= shape.micro_batches || part < 0 || part >= shape.parts() ||
        part % shape.stages != rank)
      return wrong();
    switch (task) {
      case Task::send_activation: return send(rank, operation, part + 1);
      case Task::send_gradient: return send(rank, operation, part - 1);
      case Task::receive_activation: return receive(rank, operation, part - 1);
      case Task::receive_gradient: return receive(rank, operation, part + 1);
      default: return updated_[own] ? wrong() : pass(rank, operation);
    }
  }

  bool send(int rank, const Operation& operation, int to) {
    const PipelineShape& shape = timetable_.shape;
    const Token token{operation.task, operation.micro, operation.part};
    const auto& passed = operation.task == Task::send_activation ? forwards_ : backs_;
    if (to < 0 || to >= shape.parts() || !passed.contains({operation.micro, operation.part}))
      return wrong();
    if (!slots_.try_emplace({rank, to % shape.stages}, token).second) return false;
    return sent_.insert(token).second || wrong();
  }

  bool receive(int rank, const Operation& operation, int from) {
    const PipelineShape& shape = timetable_.shape;
    if (from < 0 || from >= shape.parts()) return wrong();
    const auto slot = slots_.find({from % shape.stages, rank});
    if (slot == slots_.end()) return false;
    const Task sent =
        operation.task == Task::receive_activation ? Task::send_activation : Task::send_gradient;
    if (slot->second != Token{sent, operation.micro, from}) return wrong();
    unused_.insert(slot->second);
    slots_.erase(slot);
    return true;
  }

  bool pass(int rank, const Operation& operation) {
    const auto [task, micro, part] = operation;
    if (task == Task::forward) return forward(rank, micro, part);
    const std::pair at(micro, part);
    auto& kept = kept_[part];
    if (!forwards_.contains(at) || backs_.contains(at)) return wrong();
    if (task == Task::recompute) {
      if (!timetable_.shape.recompute || kept == micro) return wrong();
      kept = micro;
      return again_.insert(at).second || wrong();
    }
    const bool last = part + 1 == timetable_.shape.parts();
    if (!last && unused_.erase({Task::send_gradient, micro, part + 1}) == 0) return wrong();
    if (timetable_.shape.recompute && kept != micro) return wrong();
    backs_.insert(at);
    --held_[rank];
    return true;
  }

  bool forward(int rank, int micro, int part) {
    if (part > 0 && unused_.erase({Task::send_activation, micro, part - 1}) == 0) return wrong();
    if (!forwards_.emplace(micro, part).second) return wrong();
    kept_[part] = micro;
    const int limit = timetable_.in_flight[static_cast<std::size_t>(rank)];
    return ++held_[rank] <= limit || wrong();
  }

  const Timetable& timetable_;
  bool wrong_ = false;
  std::vector<std::size_t> next_;
  std::vector<bool> updated_;
  std::map<std::pair<int, int>, Token> slots_; ///< by sender and receiver
  std::set<Token> sent_, unused_;
  std::set<std::pair<int, int>> forwards_, backs_, again_;
  std::map<int, int> kept_, held_; ///< micro-batch by part; number of passes by rank
};

} // namespace rondo::test
