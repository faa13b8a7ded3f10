// How far workers may be apart: one bound, from which all models of consistency follow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace rondo::training::servers {

/// A worker that has done n steps may read values as soon as they hold the first n - s steps of
/// every worker. s = 0 is BSP, no bound at all is ASP, all between is SSP (Ho et al., 2013).
class Staleness {
 public:
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

  /// Of "bsp", "ssp:S" or "asp". Throws Error(invalid_argument) that lists them for other texts.
  explicit Staleness(const std::string& text);

  bool bounded() const { return bound_ != kUnbounded; }
  /// Workers keep step: what one reads holds the same steps of all.
  bool bulk() const { return bound_ == 0; }
  bool allows(std::int64_t own, std::int64_t oldest) const { return own - oldest <= bound_; }

 private:
  std::int64_t bound_ = 0;
};

/// May the worker begin another step before the next meeting, and is it known to be its last?
struct Grant {
  bool go = false, last = false;
};

/// Hands out the steps up to a meeting. With a bound every worker gets as many as every other;
/// without one they take what is left, so that a slow one holds up nobody.
class Grants {
 public:
  Grants(int workers, const Staleness& staleness)
      : bounded_(staleness.bounded()), granted_(static_cast<std::size_t>(workers)) {}

  /// Each worker's first step is granted.
  void begin(std::int64_t steps) {
    limit_ = steps;
    std::fill(granted_.begin(), granted_.end(), 1);
  }
  Grant first() const { return {true, bounded_ && limit_ == 1}; }
  /// Behind a worker's step.
  Grant next(int worker) {
    std::int64_t& own = granted_[static_cast<std::size_t>(worker)];
    if (bounded_ ? own >= limit_ : total() >= limit_ * workers()) return {};
    ++own;
    return {true, bounded_ && own == limit_};
  }
  /// Moves the meeting to where it can be soonest.
  void stop() {
    if (bounded_) limit_ = *std::max_element(granted_.begin(), granted_.end());
    else limit_ = (total() + workers() - 1) / workers();
  }

 private:
  std::int64_t workers() const { return static_cast<std::int64_t>(granted_.size()); }
  std::int64_t total() const {
    return std::accumulate(granted_.begin(), granted_.end(), std::int64_t{0});
  }

  const bool bounded_;
  std::int64_t limit_ = 0;            ///< steps of the run, up to the meeting
  std::vector<std::int64_t> granted_; ///< by worker
};

} // namespace rondo::training::servers
