// Measures how long a peer has been silent, and does not count time in which this process slept.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "bootstrap/limits.h"

namespace rondo::bootstrap {

/// A beat is sent every third of the heartbeat interval. So a process that was stopped for two
/// intervals has been silent for at most two and a third of them.
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
    if (due_ == base::Clock::time_point{}) return {}; // no timer yet
    return std::max(now - due_, base::Clock::duration::zero());
  }

 private:
  base::Clock::time_point due_{};
};

/// Bounds the descriptors for questions to listeners.
inline constexpr int kProbesAtOnce = 64;
/// How long a hub takes at most to ask so many ranks, or to tell them that it goes on without them.
inline std::chrono::milliseconds probesTake(int ranks) {
  return kProbeLimit * ((ranks + kProbesAtOnce - 1) / kProbesAtOnce);
}

/// Whether other ranks may have excluded the ranks of a process that was stopped for so long, or
/// have skipped it as a candidate. Two heartbeats, not silenceLimit(): the others also count the
/// time since its last beat.
inline bool mayBeExcluded(base::Clock::duration stopped, std::chrono::milliseconds heartbeat) {
  return stopped > std::min(2 * heartbeat, kMaySkip);
}

} // namespace rondo::bootstrap
