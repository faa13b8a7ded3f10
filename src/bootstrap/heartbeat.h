// Measures how long a peer has been silent, and does not count time in which this process slept.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.h"

namespace rondo::bootstrap {

/// Beats are sent three times per heartbeat. A process that was stopped for two heartbeats has then
/// been silent for less than two and a half.
inline std::chrono::milliseconds beatPeriod(std::chrono::milliseconds heartbeat) {
  return std::max(heartbeat / 3, std::chrono::milliseconds(1));
}

inline std::chrono::milliseconds silenceLimit(std::chrono::milliseconds heartbeat) {
  return 3 * heartbeat;
}

/// Time since the last message from a peer.
class Silence {
 public:
  void heard(base::Clock::time_point now) { since_ = now; }
  /// This process's timer was `late`: it could not have received anything in that time.
  void forgive(base::Clock::duration late, base::Clock::time_point now) {
    since_ = std::min(since_ + late, now);
  }
  bool longerThan(base::Clock::duration limit, base::Clock::time_point now) const {
    return now - since_ > limit;
  }

 private:
  base::Clock::time_point since_{};
};

/// How late this process's own timer is, because the process was stopped or starved.
class Gap {
 public:
  void expect(base::Clock::time_point due) { due_ = due; }
  base::Clock::duration late(base::Clock::time_point now) const {
    return std::max(now - due_, base::Clock::duration::zero());
  }
  /// Call it when the timer fires, before the next expect().
  void fired(base::Clock::time_point now, std::chrono::milliseconds heartbeat) {
    if (mayBeExcluded(late(now), heartbeat)) awake_ = now;
  }
  /// Whether this process was stopped until a moment ago, for so long that other ranks may have
  /// excluded its ranks. If they have, it now finds their connections closed.
  bool justAwake(base::Clock::time_point now, std::chrono::milliseconds heartbeat) const {
    return mayBeExcluded(late(now), heartbeat) || (awake_ && now - *awake_ < heartbeat);
  }

 private:
  /// Less than silenceLimit(), because the last beat was sent before the process was stopped.
  static bool mayBeExcluded(base::Clock::duration stopped, std::chrono::milliseconds heartbeat) {
    return stopped > 2 * heartbeat;
  }

  base::Clock::time_point due_{};
  std::optional<base::Clock::time_point> awake_; ///< end of the last long stop
};

} // namespace rondo::bootstrap
