// The profiler's events: rondo:all_reduce, from a call's beginning to its end.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace rondo::compat {

/// An event of torch's profiler, which any thread may end.
class ProfilerEvent {
 public:
  /// Begins an event "rondo:<call>"; nothing where no profiler of this thread is active. `inputs`:
  /// whose shapes the profiler may record.
  static std::shared_ptr<ProfilerEvent> begin(const char* call,
                                              const std::vector<at::Tensor>& inputs);
  /// Once.
  void end() { end_(); }

 private:
  explicit ProfilerEvent(std::function<void()> end) : end_(std::move(end)) {}
  std::function<void()> end_;
};

} // namespace rondo::compat
