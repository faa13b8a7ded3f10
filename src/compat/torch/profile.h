// Events for torch's profiler, such as rondo:all_reduce, from the begin to the end of a call.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace rondo::compat {

/// An event of torch's profiler, which any thread may end.
class ProfilerEvent {
 public:
  /// Begins an event "rondo:<call>". Returns null if this thread has no active profiler. `inputs`:
  /// tensors whose shapes the profiler may record.
  static std::shared_ptr<ProfilerEvent> begin(const char* call,
                                              const std::vector<at::Tensor>& inputs);
  /// Ends the event. Call once.
  void end() { end_(); }

 private:
  explicit ProfilerEvent(std::function<void()> end) : end_(std::move(end)) {}
  std::function<void()> end_;
};

} // namespace rondo::compat
