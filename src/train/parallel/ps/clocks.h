// Bounds how many steps workers may be apart. All consistency models follow from this one bound.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace rondo::training::servers {

/// A worker that has done n steps may read values as soon as they contain the first n - s steps of
/// every worker. s = 0 is BSP, no bound is ASP, all between is SSP (Ho et al., 2013).
class Staleness {
 public:
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

  /// Parses "bsp", "ssp:S" or "asp". Throws Error(invalid_argument), which lists these, for any
  /// other text.
  explicit Staleness(const std::string& text);

  bool bounded() const { return bound_ != kUnbounded; }
  /// Bulk-synchronous: the values that a worker reads contain the same number of steps of every
  /// worker.
  bool bulk() const { return bound_ == 0; }
  bool allows(std::int64_t own, std::int64_t oldest) const { return own - oldest <= bound_; }

 private:
  std::int64_t bound_ = 0;
};

/// Whether a worker may begin another step before the next synchronization point, whether that step
/// is known to be its last one, and the part of the samples that it takes. Each step's batch
/// has W parts: part p is number p mod W of step p / W after the last synchronization point.
struct Grant {
  bool go = false, last = false;
  std::int64_t part = 0;
};

/// Distributes the steps up to a synchronization point, and with them their samples: each part is
/// granted once. With a bound every worker gets its own share of each step. Without a bound each
/// worker takes the next part when it is ready, so that no worker waits for a slow one.
class Grants {
 public:
  Grants(int workers, const Staleness& staleness)
      : bounded_(staleness.bounded()), granted_(static_cast<std::size_t>(workers)) {}

  /// Grants each worker its first step.
  void begin(std::int64_t steps) {
    limit_ = steps;
    total_ = workers();
    std::fill(granted_.begin(), granted_.end(), 1);
  }
  Grant first(int worker) const { return {true, bounded_ && limit_ == 1, worker}; }
  /// Called after a worker's step.
  Grant next(int worker) {
    std::int64_t& own = granted_[static_cast<std::size_t>(worker)];
    if (bounded_ ? own >= limit_ : total_ >= limit_ * workers()) return {};
    const std::int64_t part = bounded_ ? own * workers() + worker : total_;
    ++own;
    ++total_;
    return {true, bounded_ && own == limit_, part};
  }
  /// Moves the synchronization point as early as the granted steps allow.
  void stop() {
    if (bounded_) limit_ = *std::max_element(granted_.begin(), granted_.end());
    else limit_ = (total_ + workers() - 1) / workers();
  }

 private:
  std::int64_t workers() const { return static_cast<std::int64_t>(granted_.size()); }

  const bool bounded_;
  std::int64_t limit_ = 0;            ///< the synchronization point, in steps: of each worker
                                      ///< if bounded_, else the mean of all
  std::int64_t total_ = 0;            ///< steps granted to all workers
  std::vector<std::int64_t> granted_; ///< steps granted to each worker
};

} // namespace rondo::training::servers
