// Work: handle of a call that may still be in flight.
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

/// Refers to one non-blocking call, or to the calls of a Group. Copies refer to the same operation.
/// Destroying a Work does not cancel the operation; the buffers must stay valid until it is done.
/// A Work may outlive its communicator, whose destructor waits until the operation is done.
/// A collective that is not done after Options::timeout ends with Error(timeout). So does a Send or
/// a Recv, from the first time on that a thread has waited for it, also for a moment by waitFor()
/// or waitAny(); test() alone gives it no deadline. Any thread may call these functions. A
/// default-constructed Work is done.
class RONDO_API Work {
 public:
  Work() = default;

  /// Waits until the operation is done, and makes progress meanwhile. If the operation failed,
  /// every call throws its Error. Results are visible to the calling thread on return.
  void wait();
  /// Does what wait() does, for at most `limit`. Returns false if the operation is not done yet; it
  /// then goes on.
  bool waitFor(std::chrono::nanoseconds limit);
  /// Returns whether the operation is done, with or without success. It makes some progress, never
  /// waits for other ranks, and never throws.
  bool test();

  /// Waits until one of the operations is done, with or without success, and makes progress
  /// meanwhile. Returns the index of the first operation that is done; its wait() returns or throws
  /// at once. Returns nothing if `works` is empty, or if `stop` becomes true, which is noticed
  /// within a few milliseconds. Never throws the error of an operation.
  static std::optional<std::size_t> waitAny(std::span<const Work> works,
                                            const std::atomic<bool>& stop);

 private:
  friend class comm::WorkState;
  explicit Work(std::shared_ptr<comm::WorkState> state) : state_(std::move(state)) {}
  std::shared_ptr<comm::WorkState> state_;
};

} // namespace rondo
