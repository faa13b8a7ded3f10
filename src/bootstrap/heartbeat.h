// How long somebody has been silent, fairly judged by somebody who may have slept himself.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace rondo::bootstrap {

/// Beats go out three times per heartbeat: one that is stopped for two heartbeats and goes on has
/// then been silent for less than two and a half.
inline std::chrono::milliseconds beatPeriod(std::chrono::milliseconds heartbeat) {
  return std::max(heartbeat / 3, std::chrono::milliseconds(1));
}

inline std::chrono::milliseconds silenceLimit(std::chrono::milliseconds heartbeat) {
  return 3 * heartbeat;
}

/// Since when nothing came from a peer.
class Silence {
 public:
  void heard(base::Clock::time_point now) { since_ = now; }
  /// The judge was late by so much: it could not have heard anything in that time.
  void forgive(base::Clock::duration late, base::Clock::time_point now) {
    since_ = std::min(since_ + late, now);
  }
  bool longerThan(base::Clock::duration limit, base::Clock::time_point now) const {
    return now - since_ > limit;
  }

 private:
  base::Clock::time_point since_{};
};

/// How late the judge's own timer is: its process was stopped, or starved of time.
class Gap {
 public:
  void expect(base::Clock::time_point due) { due_ = due; }
  base::Clock::duration late(base::Clock::time_point now) const {
    return std::max(now - due_, base::Clock::duration::zero());
  }

 private:
  base::Clock::time_point due_{};
};

} // namespace rondo::bootstrap
