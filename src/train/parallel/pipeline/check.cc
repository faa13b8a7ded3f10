#include "train/parallel/pipeline/check.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace rondo::training {

std::string_view name(TimetableRule rule) {
  constexpr std::array<std::string_view, 7> kNames = {
      "well-formed", "once", "data flow", "matching", "deadlock", "weights", "in flight"};
  return kNames[static_cast<std::size_t>(rule)];
}

namespace {

using Fault = std::optional<TimetableFault>;

Fault fault(TimetableRule rule, const std::string& text) { return TimetableFault{rule, text}; }

std::string text(int rank, const Operation& operation) {
  std::string result = "rank " + std::to_string(rank) + ": " + std::string(name(operation.task));
  if (operation.task == Task::update) return result;
  return result + " of micro-batch " + std::to_string(operation.micro) + ", part " +
         std::to_string(operation.part);
}

bool isSend(Task task) { return task == Task::send_activation || task == Task::send_gradient; }

bool isReceive(Task task) {
  return task == Task::receive_activation || task == Task::receive_gradient;
}

/// Calls visit(rank, operation) for all operations until it returns a fault.
template <class Visit>
Fault each(const Timetable& timetable, const Visit& visit) {
  for (std::size_t rank = 0; rank < timetable.ranks.size(); ++rank)
    for (const Operation& operation : timetable.ranks[rank])
      if (Fault found = visit(static_cast<int>(rank), operation)) return found;
  return std::nullopt;
}

Fault checkForm(const Timetable& timetable) {
  const PipelineShape& shape = timetable.shape;
  const auto stages = static_cast<std::size_t>(shape.stages);
  if (timetable.ranks.size() != stages || timetable.in_flight.size() != stages)
    return fault(TimetableRule::well_formed,
                 std::to_string(timetable.ranks.size()) + " lists and " +
                     std::to_string(timetable.in_flight.size()) + " limits for " +
                     std::to_string(shape.stages) + " stages");
  return each(timetable, [&](int rank, const Operation& operation) -> Fault {
    if (operation.task == Task::update) return std::nullopt;
    const auto [task, micro, part] = operation;
    const bool there =
        micro >= 0 && micro < shape.micro_batches && part >= 0 && part < shape.parts();
    if (there && shape.rankOf(part) == rank) return std::nullopt;
    return fault(TimetableRule::well_formed,
                 text(rank, operation) + (there ? " is not on this rank" : " does not exist"));
  });
}

/// The index of each operation in the list of its rank. An operation that occurs twice is a fault.
using Places = std::map<std::array<int, 3>, std::size_t>;

std::array<int, 3> key(Task task, int micro, int part) {
  return {static_cast<int>(task), micro, part};
}

Fault findPlaces(const Timetable& timetable, Places& places) {
  for (std::size_t rank = 0; rank < timetable.ranks.size(); ++rank) {
    const auto& list = timetable.ranks[rank];
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].task == Task::update) continue;
      if (!places.try_emplace(key(list[i].task, list[i].micro, list[i].part), i).second)
        return fault(TimetableRule::once, text(static_cast<int>(rank), list[i]) + " occurs twice");
    }
  }
  return std::nullopt;
}

/// Calls visit(micro, part) for all passes until it returns a fault.
template <class Visit>
Fault eachPass(const PipelineShape& shape, const Visit& visit) {
  for (int micro = 0; micro < shape.micro_batches; ++micro)
    for (int part = 0; part < shape.parts(); ++part)
      if (Fault found = visit(micro, part)) return found;
  return std::nullopt;
}

/// Checks that one operation of a rank comes before another. A missing operation is a fault too.
class Order {
 public:
  Order(const Timetable& timetable, const Places& places)
      : shape_(timetable.shape), places_(places) {}

  Fault require(TimetableRule rule, bool wanted, const Operation& operation) const {
    const int rank = shape_.rankOf(operation.part);
    if (places_.contains(key(operation.task, operation.micro, operation.part)) == wanted)
      return std::nullopt;
    return fault(rule, text(rank, operation) + (wanted ? " is missing" : " is not needed"));
  }

  Fault before(TimetableRule rule, const Operation& first, const Operation& second) const {
    for (const Operation* one : {&first, &second})
      if (Fault found = require(rule, true, *one)) return found;
    const auto place = [&](const Operation& one) {
      return places_.at(key(one.task, one.micro, one.part));
    };
    if (place(first) < place(second)) return std::nullopt;
    return fault(rule, text(shape_.rankOf(first.part), second) + " comes before its " +
                           std::string(name(first.task)));
  }

 private:
  const PipelineShape& shape_;
  const Places& places_;
};

Fault checkOnce(const Timetable& timetable, const Order& order) {
  constexpr auto kRule = TimetableRule::once;
  return eachPass(timetable.shape, [&](int micro, int part) -> Fault {
    const Operation forward{Task::forward, micro, part}, back{Task::backward, micro, part};
    if (Fault found = order.require(kRule, true, forward)) return found;
    if (Fault found = order.require(kRule, timetable.trains, back)) return found;
    return timetable.trains ? order.before(kRule, forward, back) : std::nullopt;
  });
}

/// With recomputation a part keeps only the activations of its last forward pass.
Fault checkActivations(const Timetable& timetable) {
  const bool recompute = timetable.trains && timetable.shape.recompute;
  std::map<int, int> last; // the micro-batch of the last forward pass of each part
  std::set<std::pair<int, int>> done;
  return each(timetable, [&](int rank, const Operation& operation) -> Fault {
    const auto [task, micro, part] = operation;
    if (task == Task::forward) last[part] = micro;
    if (task == Task::recompute) {
      if (!recompute || !last.contains(part) || last[part] == micro || done.contains({micro, part}))
        return fault(TimetableRule::once, text(rank, operation) + " is not needed");
      last[part] = micro;
    }
    if (task == Task::backward && recompute && last[part] != micro)
      return fault(TimetableRule::once, text(rank, operation) + " needs a recompute");
    if (task == Task::backward) done.emplace(micro, part);
    return std::nullopt;
  });
}

/// Checks a message between two parts: it is received before it is used. If there is no
/// neighbouring part (`there` is false), there must be no message.
Fault checkMessage(const Order& order, bool there, Operation receive, Operation use) {
  if (Fault found = order.require(TimetableRule::data_flow, there, receive)) return found;
  return there ? order.before(TimetableRule::data_flow, receive, use) : std::nullopt;
}

Fault checkDataFlow(const Timetable& timetable, const Order& order) {
  const int last = timetable.shape.parts() - 1;
  return eachPass(timetable.shape, [&](int micro, int part) -> Fault {
    const Operation forward{Task::forward, micro, part}, back{Task::backward, micro, part};
    const auto message = [&](Task task) { return Operation{task, micro, part}; };
    const bool from_before = part > 0, to_next = part < last;
    const bool from_next = timetable.trains && to_next, to_before = timetable.trains && from_before;
    if (Fault found = checkMessage(order, from_before, message(Task::receive_activation), forward))
      return found;
    if (Fault found = checkMessage(order, from_next, message(Task::receive_gradient), back))
      return found;
    for (const auto& [pass, task, there] : {std::tuple(forward, Task::send_activation, to_next),
                                            std::tuple(back, Task::send_gradient, to_before)}) {
      if (Fault found = order.require(TimetableRule::data_flow, there, message(task))) return found;
      if (!there) continue;
      if (Fault found = order.before(TimetableRule::data_flow, pass, message(task))) return found;
    }
    return std::nullopt;
  });
}

/// The send that matches a receive.
Operation sendOf(const Operation& receive) {
  return receive.task == Task::receive_activation
             ? Operation{Task::send_activation, receive.micro, receive.part - 1}
             : Operation{Task::send_gradient, receive.micro, receive.part + 1};
}

/// The ranks of sender and receiver.
using Channel = std::pair<int, int>;

Channel channelOf(const PipelineShape& shape, int rank, const Operation& message) {
  if (isReceive(message.task)) return {shape.rankOf(sendOf(message).part), rank};
  const int to = message.part + (message.task == Task::send_activation ? 1 : -1);
  return {rank, shape.rankOf(to)};
}

Fault checkMatching(const Timetable& timetable) {
  std::map<Channel, std::pair<std::vector<Operation>, std::vector<Operation>>> channels;
  each(timetable, [&](int rank, const Operation& operation) -> Fault {
    if (isSend(operation.task))
      channels[channelOf(timetable.shape, rank, operation)].first.push_back(operation);
    if (isReceive(operation.task))
      channels[channelOf(timetable.shape, rank, operation)].second.push_back(operation);
    return std::nullopt;
  });
  // The data flow rule has been checked, so every send has a receive on the same channel.
  for (const auto& [channel, lists] : channels)
    for (std::size_t i = 0; i < lists.first.size(); ++i)
      if (sendOf(lists.second[i]) != lists.first[i])
        return fault(TimetableRule::matching, text(channel.second, lists.second[i]) +
                                                  " is matched with " +
                                                  text(channel.first, lists.first[i]));
  return std::nullopt;
}

Fault checkDeadlock(const Timetable& timetable) {
  std::vector<std::size_t> done(timetable.ranks.size());
  std::set<Channel> full;
  const auto can = [&](int rank, const Operation& operation) {
    if (isSend(operation.task))
      return full.insert(channelOf(timetable.shape, rank, operation)).second;
    if (isReceive(operation.task))
      return full.erase(channelOf(timetable.shape, rank, operation)) > 0;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < done.size(); ++rank)
      for (const auto& list = timetable.ranks[rank];
           done[rank] < list.size() && can(static_cast<int>(rank), list[done[rank]]); ++done[rank])
        moved = true;
  }
  std::string waiting;
  for (std::size_t rank = 0; rank < done.size(); ++rank)
    if (done[rank] < timetable.ranks[rank].size())
      waiting += (waiting.empty() ? "" : "; ") +
                 text(static_cast<int>(rank), timetable.ranks[rank][done[rank]]) + " waits";
  return waiting.empty() ? std::nullopt : fault(TimetableRule::deadlock, waiting);
}

Fault checkWeights(const Timetable& timetable) {
  for (std::size_t rank = 0; rank < timetable.ranks.size(); ++rank) {
    const auto& list = timetable.ranks[rank];
    const auto number = static_cast<int>(rank);
    const auto is_update = [](const Operation& operation) {
      return operation.task == Task::update;
    };
    const auto updates = std::count_if(list.begin(), list.end(), is_update);
    if (updates != (timetable.trains ? 1 : 0))
      return fault(TimetableRule::weights, "rank " + std::to_string(number) + " updates " +
                                               std::to_string(updates) + " times");
    const auto update = std::find_if(list.begin(), list.end(), is_update);
    const auto late = std::find_if(update, list.end(), [](const Operation& operation) {
      return operation.task == Task::forward || operation.task == Task::backward ||
             operation.task == Task::recompute;
    });
    if (late != list.end())
      return fault(TimetableRule::weights, text(number, *late) + " comes after the update");
  }
  return std::nullopt;
}

Fault checkInFlight(const Timetable& timetable) {
  if (!timetable.trains) return std::nullopt;
  for (int rank = 0; rank < timetable.shape.stages; ++rank) {
    const int most = mostInFlight(timetable, rank);
    const int limit = timetable.in_flight[static_cast<std::size_t>(rank)];
    if (most > limit)
      return fault(TimetableRule::in_flight, "rank " + std::to_string(rank) +
                                                 " holds activations of " + std::to_string(most) +
                                                 " passes, but may hold only " +
                                                 std::to_string(limit));
  }
  return std::nullopt;
}

} // namespace

int mostInFlight(const Timetable& timetable, int rank) {
  std::set<std::pair<int, int>> held;
  std::size_t most = 0;
  for (const auto& [task, micro, part] : timetable.ranks[static_cast<std::size_t>(rank)]) {
    if (task == Task::forward) held.emplace(micro, part);
    most = std::max(most, held.size());
    if (task == Task::backward) held.erase({micro, part});
  }
  return static_cast<int>(most);
}

std::optional<TimetableFault> check(const Timetable& timetable) {
  Places places;
  if (Fault found = checkForm(timetable)) return found;
  if (Fault found = findPlaces(timetable, places)) return found;
  const Order order(timetable, places);
  if (Fault found = checkOnce(timetable, order)) return found;
  if (Fault found = checkActivations(timetable)) return found;
  if (Fault found = checkDataFlow(timetable, order)) return found;
  if (Fault found = checkMatching(timetable)) return found;
  if (Fault found = checkDeadlock(timetable)) return found;
  if (Fault found = checkWeights(timetable)) return found;
  return checkInFlight(timetable);
}

} // namespace rondo::training
