// The clock of every deadline.
#pragma once

#include <algorithm>
#include <chrono>

namespace rondo::base {

/// Monotonic: not touched by changes of the wall clock.
using Clock = std::chrono::steady_clock;

/// A point in time by which something must be done.
class Deadline {
 public:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  /// From now on, in whatever unit the limit is; one too long to add is forever, a negative one is
  /// over.
  template <class Count, class Unit>
  explicit Deadline(std::chrono::duration<Count, Unit> limit) {
    using Limit = std::chrono::duration<Count, Unit>;
    const Clock::time_point now = Clock::now();
    // Compared in the limit's own unit: in the clock's it may not be expressible.
    if (limit >= std::chrono::floor<Limit>(Clock::time_point::max() - now))
      at_ = Clock::time_point::max();
    else at_ = now + std::chrono::duration_cast<Clock::duration>(std::max(limit, Limit::zero()));
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
