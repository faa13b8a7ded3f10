// Handle to an operation in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "rondo/export.h"

namespace rondo {

namespace comm {
class WorkState;
}

/// Refers to one non-blocking call (or to a group of them). Copies refer to the same operation.
/// Dropping it does not cancel the operation; the buffers must stay valid until it is done.
/// Any thread may call these functions. A default-made Work is done.
class RONDO_API Work {
 public:
  Work() = default;

  /// Makes progress until the operation is done. Throws its Error, each time it is called.
  /// Results are visible to the caller's thread when it returns.
  void wait();
  /// As wait(), for at most `limit`. False: not done yet (the operation goes on).
  bool waitFor(std::chrono::nanoseconds limit);
  /// Whether it is done, well or badly; makes some progress, never waits for other ranks, never
  /// throws.
  bool test();

  /// Makes progress until one of the operations is done, well or badly, and returns the index of
  /// the first one that is: its wait() returns or throws at once. Returns nothing when there are no
  /// works, or when `stop` is true, which it sees within a few milliseconds. Never throws what an
  /// operation ended with.
  static std::optional<std::size_t> waitAny(std::span<const Work> works,
                                            const std::atomic<bool>& stop);

 private:
  friend class comm::WorkState;
  explicit Work(std::shared_ptr<comm::WorkState> state) : state_(std::move(state)) {}
  std::shared_ptr<comm::WorkState> state_;
};

} // namespace rondo
