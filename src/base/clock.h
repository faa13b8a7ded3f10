// The clock of every deadline.
#pragma once

#include <chrono>

namespace rondo::base {

/// Monotonic: not touched by changes of the wall clock.
using Clock = std::chrono::steady_clock;

/// A point in time by which something must be done.
class Deadline {
 public:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  /// From now on; a limit too long to add is forever.
  explicit Deadline(Clock::duration limit) {
    const Clock::time_point now = Clock::now();
    at_ = limit > Clock::time_point::max() - now ? Clock::time_point::max() : now + limit;
  }

  Clock::time_point at() const { return at_; }
  bool passed() const { return Clock::now() >= at_; }
  /// Never negative.
  Clock::duration left() const {
    const Clock::time_point now = Clock::now();
    return now >= at_ ? Clock::duration::zero() : at_ - now;
  }

 private:
  Clock::time_point at_;
};

} // namespace rondo::base
