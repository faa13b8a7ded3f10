// The clock that all deadlines use.
#pragma once

#include <algorithm>
#include <chrono>

namespace rondo::base {

/// Monotonic: changes of the wall clock do not affect it.
using Clock = std::chrono::steady_clock;

/// A point in time by which something must be done.
class Deadline {
 public:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  /// `limit` from now on, in any unit. A limit that is too long to be added means forever; a
  /// negative one has passed.
  template <class Count, class Unit>
  explicit Deadline(std::chrono::duration<Count, Unit> limit) {
    using Limit = std::chrono::duration<Count, Unit>;
    const Clock::time_point now = Clock::now();
    // Compared in the limit's own unit, since the clock's unit may not be able to
    // express the limit.
    if (limit >= std::chrono::floor<Limit>(Clock::time_point::max() - now))
      at_ = Clock::time_point::max();
    else at_ = now + std::chrono::duration_cast<Clock::duration>(std::max(limit, Limit::zero()));
  }

  Clock::time_point at() const { return at_; }
  bool passed() const { return Clock::now() >= at_; }
  /// Time until the deadline; zero if it has passed.
  Clock::duration left() const {
    const Clock::time_point now = Clock::now();
    return now >= at_ ? Clock::duration::zero() : at_ - now;
  }

 private:
  Clock::time_point at_;
};

} // namespace rondo::base
