// Measures how long at least one of several intervals was active.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace rondo::gradients {

using Clock = std::chrono::steady_clock;

struct Interval {
  Clock::time_point begin, end;
};

inline double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Seconds before `until` in which at least one of the intervals is active. `sorted` must be sorted
/// by `begin`.
inline double covered(const std::vector<Interval>& sorted, Clock::time_point until) {
  Clock::duration sum{};
  Clock::time_point reached = Clock::time_point::min();
  for (const Interval& one : sorted) {
    const auto begin = std::max(one.begin, reached), end = std::min(one.end, until);
    if (begin < end) sum += end - begin;
    reached = std::max(reached, one.end);
  }
  return seconds(sum);
}

} // namespace rondo::gradients
