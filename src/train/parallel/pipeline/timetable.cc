// Builds the timetable of a step: the passes in the order of a PipelineKind, with the messages
// between them.
#include "train/parallel/pipeline/timetable.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "rondo/error.h"
#include "train/named.h"

namespace rondo::training {

namespace pipelines {
#define PIPELINE(name) extern const PipelineKind name;
#include "train/parallel/pipeline/kinds.def"
#undef PIPELINE
} // namespace pipelines

std::string_view name(Task task) {
  constexpr std::array<std::string_view, 8> kNames = {
      "receive activation", "forward",  "send activation", "receive gradient",
      "recompute",          "backward", "send gradient",   "update"};
  return kNames[static_cast<std::size_t>(task)];
}

std::vector<const PipelineKind*> pipelineKinds() {
  return {
#define PIPELINE(name) &pipelines::name,
#include "train/parallel/pipeline/kinds.def"
#undef PIPELINE
  };
}

const PipelineKind& pipelineKind(std::string_view name) {
  return named(pipelineKinds(), "pipeline", name);
}

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: pipeline: " + what);
}

void requireShape(const PipelineShape& shape) {
  const auto atLeastOne = [](int value, const char* what) {
    if (value < 1) refuse(std::to_string(value) + " " + what + ", must be 1 or more");
  };
  atLeastOne(shape.stages, "stages");
  atLeastOne(shape.micro_batches, "micro-batches");
  atLeastOne(shape.laps, "laps");
  if (shape.laps == 1) return;
  if (shape.stages == 1) refuse("more than one lap needs more than one stage");
  if (shape.micro_batches % shape.stages != 0)
    refuse(std::to_string(shape.micro_batches) + " micro-batches on " +
           std::to_string(shape.stages) + " stages with " + std::to_string(shape.laps) +
           " laps: must be a multiple of the stages");
}

/// Simulates a step in the order of time, with forward passes of one unit and backward passes of
/// two, and records the operations of each rank.
class Clockwork {
 public:
  explicit Clockwork(Timetable& timetable)
      : shape_(timetable.shape),
        orders_(std::move(timetable.ranks)),
        lists_(orders_.size()),
        next_(orders_.size()),
        free_(orders_.size()) {}

  std::vector<std::vector<Operation>> run() {
    while (const auto rank = first()) step(*rank);
    for (std::size_t rank = 0; rank < orders_.size(); ++rank)
      if (next_[rank] < orders_[rank].size())
        refuse("rank " + std::to_string(rank) + " would wait forever");
    return std::move(lists_);
  }

 private:
  /// The output of a pass: the activation of a part, or the gradient of its input.
  using Made = std::pair<Task, std::pair<int, int>>;
  struct Message {
    Operation send, receive;
  };

  const Operation& pending(std::size_t rank) const { return orders_[rank][next_[rank]]; }

  /// The output that the operation waits for; empty if it needs none.
  std::optional<Made> needs(const Operation& operation) const {
    const auto [task, micro, part] = operation;
    if (task == Task::forward && part > 0) return Made{Task::forward, {micro, part - 1}};
    if (task == Task::backward && part + 1 < shape_.parts())
      return Made{Task::backward, {micro, part + 1}};
    return std::nullopt;
  }

  /// The rank whose next operation can begin first.
  std::optional<std::size_t> first() const {
    std::optional<std::size_t> best;
    int earliest = std::numeric_limits<int>::max();
    for (std::size_t rank = 0; rank < orders_.size(); ++rank) {
      if (next_[rank] == orders_[rank].size()) continue;
      const int start = startOf(rank);
      if (start < earliest) {
        earliest = start;
        best = rank;
      }
    }
    return best;
  }

  int startOf(std::size_t rank) const {
    const auto needed = needs(pending(rank));
    if (!needed) return free_[rank];
    const auto made = made_.find(*needed);
    return made == made_.end() ? std::numeric_limits<int>::max()
                               : std::max(free_[rank], made->second);
  }

  void step(std::size_t rank) {
    const Operation now = pending(rank);
    const int end = startOf(rank) + (now.task == Task::forward ? 1 : 2);
    if (const auto needed = needs(now)) takeFor(rank, *needed);
    lists_[rank].push_back(now);
    free_[rank] = end;
    ++next_[rank];
    made_[{now.task, {now.micro, now.part}}] = end;
    send(rank, now);
  }

  void takeFor(std::size_t rank, const Made& needed) {
    const auto from = static_cast<std::size_t>(shape_.rankOf(needed.second.second));
    const auto waiting = slots_.find({from, rank});
    const Task sent = needed.first == Task::forward ? Task::send_activation : Task::send_gradient;
    if (waiting == slots_.end() ||
        waiting->second.send != Operation{sent, needed.second.first, needed.second.second})
      return; // it was received earlier
    lists_[rank].push_back(waiting->second.receive);
    slots_.erase(waiting);
  }

  void send(std::size_t rank, const Operation& made) {
    const bool forward = made.task == Task::forward;
    const int to = made.part + (forward ? 1 : -1);
    if (to < 0 || to == shape_.parts()) return;
    const auto peer = static_cast<std::size_t>(shape_.rankOf(to));
    const Message message = forward ? Message{{Task::send_activation, made.micro, made.part},
                                              {Task::receive_activation, made.micro, to}}
                                    : Message{{Task::send_gradient, made.micro, made.part},
                                              {Task::receive_gradient, made.micro, to}};
    const auto [slot, empty] = slots_.try_emplace({rank, peer}, message);
    if (!empty) {
      lists_[peer].push_back(slot->second.receive);
      slot->second = message;
    }
    lists_[rank].push_back(message.send);
  }

  const PipelineShape shape_;
  const std::vector<std::vector<Operation>> orders_;
  std::vector<std::vector<Operation>> lists_;
  std::vector<std::size_t> next_; ///< index of the next operation of each rank
  std::vector<int> free_;         ///< when each rank ends its current operation
  std::map<Made, int> made_;      ///< when each output was complete
  /// The message in each channel, by sender and receiver.
  std::map<std::pair<std::size_t, std::size_t>, Message> slots_;
};

/// Inserts recomputations directly before backward passes, after the receipt of the gradient. None
/// is needed if the last forward pass of the part was that of the same micro-batch.
void addRecomputation(std::vector<Operation>& list) {
  std::map<int, int> last; // the micro-batch of the last forward pass of each part
  std::vector<Operation> with;
  for (const Operation& operation : list) {
    const auto [task, micro, part] = operation;
    if (task == Task::forward) last[part] = micro;
    if (task == Task::backward && std::exchange(last[part], micro) != micro)
      with.push_back({Task::recompute, micro, part});
    with.push_back(operation);
  }
  list = std::move(with);
}

} // namespace

void addMessages(Timetable& timetable) { timetable.ranks = Clockwork(timetable).run(); }

Timetable makeTimetable(const PipelineKind& kind, PipelineShape shape) {
  if (!kind.laps) shape.laps = 1;
  requireShape(shape);
  Timetable timetable{.shape = shape, .trains = true, .ranks = {}, .in_flight = {}};
  for (int rank = 0; rank < shape.stages; ++rank) {
    timetable.ranks.push_back(kind.order(shape, rank));
    timetable.in_flight.push_back(kind.in_flight(shape, rank));
  }
  addMessages(timetable);
  for (auto& list : timetable.ranks) {
    if (shape.recompute) addRecomputation(list);
    list.push_back({Task::update});
  }
  return timetable;
}

/// Batches go in groups of `stages`, so that with several laps all ranks have work.
Timetable evaluationTimetable(PipelineShape shape) {
  shape.recompute = false;
  Timetable timetable{.shape = shape, .trains = false, .ranks = {}, .in_flight = {}};
  for (int rank = 0; rank < shape.stages; ++rank) {
    auto& list = timetable.ranks.emplace_back();
    for (int begin = 0; begin < shape.micro_batches; begin += shape.stages)
      for (int part = rank; part < shape.parts(); part += shape.stages)
        for (int i = begin; i < std::min(begin + shape.stages, shape.micro_batches); ++i)
          list.push_back({Task::forward, i, part});
    timetable.in_flight.push_back(1);
  }
  addMessages(timetable);
  return timetable;
}

} // namespace rondo::training
