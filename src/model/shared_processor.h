// A processor that several tasks share: when each of them ends.
#pragma once

#include <cstdint>
#include <map>

namespace rondo::model {

/// The tasks that compute on one processor, each with an equal part of its time. Its clock shows
/// the processor time that each of them has received. So a task ends when the clock shows its value
/// at the task's begin plus the task's seconds.
class SharedProcessor {
 public:
  /// `now` is never earlier than in the call before.
  void add(double now, std::uint32_t task, double seconds) {
    advance(now);
    active_.emplace(clock_ + seconds, task);
  }
  /// Ends the next task, at next(). Returns its number.
  std::uint32_t pop(double now) {
    advance(now);
    const std::uint32_t task = active_.begin()->second;
    clock_ = active_.begin()->first;
    active_.erase(active_.begin());
    return task;
  }
  bool idle() const { return active_.empty(); }
  /// When the next task ends, if none is added before.
  double next() const {
    return at_ + (active_.begin()->first - clock_) * static_cast<double>(active_.size());
  }

 private:
  void advance(double now) {
    if (!active_.empty()) clock_ += (now - at_) / static_cast<double>(active_.size());
    at_ = now;
  }

  std::multimap<double, std::uint32_t> active_; ///< by the clock's value at their end
  double clock_ = 0, at_ = 0;
};

} // namespace rondo::model
