// Events in the order of their times; those of the same time in the order in which they were added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rondo::model {

class EventQueue {
 public:
  enum class Kind : std::uint8_t { begin, step_done, head, arrival, meeting };
  struct Event {
    double time = 0;
    std::uint64_t number = 0;
    std::uint32_t object = 0; ///< a lane or a channel
    Kind kind{};
  };

  bool empty() const { return heap_.empty(); }
  std::uint64_t added() const { return added_; }
  void push(double time, Kind kind, std::uint32_t object) {
    heap_.push_back({time, added_++, object, kind});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }

  std::vector<Event> heap_;
  std::uint64_t added_ = 0;
};

} // namespace rondo::model
