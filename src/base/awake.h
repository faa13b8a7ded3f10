// Time limits that count only while the process runs, and how error texts print durations.
//
// A process that was stopped, or got no processor time on a loaded machine, finds its deadlines
// passed before any of its threads could look whether the awaited event has happened. Such limits
// are for waits that other threads of the process end, or that end when the waiting thread has
// looked a few more times.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace rondo::base {

/// The most that one wait, or the time between two looks, subtracts from a limit.
inline constexpr Clock::duration kAwakePiece = std::chrono::milliseconds(100);

/// Does what `changed->wait_for(lock, limit, ready)` does, with such a limit.
template <class Changed, class Ready>
bool waitAwake(Changed&& changed, std::unique_lock<std::mutex>& lock, Clock::duration limit,
               const Ready& ready) {
  for (;;) {
    const auto piece = std::min(limit, kAwakePiece);
    if (changed->wait_for(lock, piece, ready)) return true;
    limit -= piece;
    if (limit <= Clock::duration::zero()) return false;
  }
}

/// A limit for an owner that calls passed() again and again. One thread at a time.
class AwakeLimit {
 public:
  explicit AwakeLimit(Clock::duration limit) : left_(limit) {}
  bool passed() {
    const auto now = Clock::now();
    left_ -= std::min(now - last_, kAwakePiece);
    last_ = now;
    return left_ <= Clock::duration::zero();
  }

 private:
  Clock::duration left_;
  Clock::time_point last_ = Clock::now();
};

/// A duration for an error text: "400 ms", "5 s", "1.5 s".
inline std::string text(Clock::duration duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  if (ms < 1000) return std::to_string(ms) + " ms";
  const auto tenths = ms / 100 % 10;
  return std::to_string(ms / 1000) + (tenths > 0 ? "." + std::to_string(tenths) : "") + " s";
}

} // namespace rondo::base
