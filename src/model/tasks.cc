// Simulates when tasks begin and end. Every task ends, because it waits only for tasks that were
// added before it.
#include "model/tasks.h"

#include <cmath>
#include <deque>
#include <map>
#include <queue>
#include <utility>

#include "model/shared_processor.h"
#include "rondo/error.h"

namespace rondo::model {

std::uint32_t TaskGraph::addResource(Resource resource) {
  resources_.push_back(std::move(resource));
  return static_cast<std::uint32_t>(resources_.size() - 1);
}

std::uint32_t TaskGraph::add(Task task) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "task \"" + task.name + "\" " + why);
  };
  if (!std::isfinite(task.seconds) || task.seconds < 0)
    refuse("takes " + std::to_string(task.seconds) + " seconds");
  if (task.resources.empty()) refuse("has no resource");
  for (const std::uint32_t resource : task.resources)
    if (resource >= resources_.size()) refuse("has a resource that does not exist");
  for (const std::uint32_t before : task.after)
    if (before >= tasks_.size()) refuse("waits for a task that was not added before it");
  tasks_.push_back(std::move(task));
  return static_cast<std::uint32_t>(tasks_.size() - 1);
}

namespace {

class TaskRun {
 public:
  TaskRun(const std::vector<Task>& tasks, std::size_t resources)
      : tasks_(tasks),
        queues_(resources),
        waits_(tasks.size()),
        dependents_(tasks.size()),
        times_(tasks.size()) {
    for (std::uint32_t task = 0; task < tasks.size(); ++task) {
      waits_[task] = tasks[task].after.size();
      for (const std::uint32_t before : tasks[task].after) dependents_[before].push_back(task);
      for (const std::uint32_t resource : tasks[task].resources) {
        if (!queues_[resource].empty()) ++waits_[task];
        queues_[resource].push_back(task);
      }
    }
  }

  std::vector<TaskTime> times() {
    for (std::uint32_t task = 0; task < tasks_.size(); ++task)
      if (waits_[task] == 0) begin(task, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.processor < 0) {
        end(event.object, event.time);
      } else if (SharedProcessor& processor = processors_[event.processor];
                 !processor.idle() && event.time == processor.next()) {
        const std::uint32_t task = processor.pop(event.time);
        expect(event.processor);
        end(task, event.time);
      }
    }
    return std::move(times_);
  }

 private:
  /// The end of a task without `processor`, or the next end of a task on a processor. The latter
  /// event is ignored if another task has begun there in the meantime.
  struct Event {
    double time = 0;
    std::uint64_t number = 0;
    std::uint32_t object = 0;
    int processor = -1;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  void push(double time, std::uint32_t task, int processor) {
    events_.push({time, pushed_++, task, processor});
  }
  void expect(int processor) {
    if (const SharedProcessor& shared = processors_[processor]; !shared.idle())
      push(shared.next(), 0, processor);
  }
  void begin(std::uint32_t task, double now) {
    times_[task].begin = now;
    const int processor = tasks_[task].processor;
    if (processor < 0) return push(now + tasks_[task].seconds, task, -1);
    processors_[processor].add(now, task, tasks_[task].seconds);
    expect(processor);
  }
  void release(std::uint32_t task, double now) {
    if (--waits_[task] == 0) begin(task, now);
  }
  void end(std::uint32_t task, double now) {
    times_[task].end = now;
    for (const std::uint32_t resource : tasks_[task].resources) {
      queues_[resource].pop_front();
      if (!queues_[resource].empty()) release(queues_[resource].front(), now);
    }
    for (const std::uint32_t next : dependents_[task]) release(next, now);
  }

  const std::vector<Task>& tasks_;
  std::vector<std::deque<std::uint32_t>> queues_;
  std::vector<std::size_t> waits_; ///< of a task: tasks, and resources where it is not first
  std::vector<std::vector<std::uint32_t>> dependents_;
  std::vector<TaskTime> times_;
  std::map<int, SharedProcessor> processors_;
  std::priority_queue<Event> events_;
  std::uint64_t pushed_ = 0;
};

} // namespace

std::vector<TaskTime> TaskGraph::times() const {
  return TaskRun(tasks_, resources_.size()).times();
}

} // namespace rondo::model
