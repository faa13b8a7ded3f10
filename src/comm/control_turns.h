// Splits and exchanges run one after the other, in the order of the calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "base/condition.h"

namespace rondo::comm {

/// Runs the splits and exchanges of one communicator in the order of the calls, whatever threads
/// they run on. Any thread.
class ControlTurns {
 public:
  std::uint64_t take() { return taken_.fetch_add(1); }
  /// Throws Error(timeout) if one of the earlier turns takes longer than `limit`. This turn then
  /// never ends, and the later ones wait until stop().
  void await(std::uint64_t turn, std::chrono::milliseconds limit);
  void end();
  /// The communicator has failed, so an earlier turn may never end: no turn waits any more.
  void stop();

 private:
  std::atomic<std::uint64_t> taken_{0};
  std::mutex mutex_;
  base::Condition changed_;
  // Guarded by mutex_.
  std::uint64_t ended_ = 0;
  bool stopped_ = false;
};

} // namespace rondo::comm
