// Durations in milliseconds, and their medians.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "rondo/train.h"

namespace rondo::training {

class Stopwatch {
 public:
  double read() const { return milliseconds(Clock::now() - begin_); }
  /// Since it was made or last asked.
  double lap() {
    const Clock::time_point now = Clock::now();
    const double passed = milliseconds(now - begin_);
    begin_ = now;
    return passed;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double milliseconds(Clock::duration passed) {
    return std::chrono::duration<double, std::milli>(passed).count();
  }
  Clock::time_point begin_ = Clock::now();
};

/// The medians of each part of the steps' times.
inline TrainTimes medians(const std::vector<TrainTimes>& all) {
  TrainTimes result;
  std::vector<double> one(all.size());
  for (double TrainTimes::*const part :
       {&TrainTimes::step, &TrainTimes::data, &TrainTimes::forward, &TrainTimes::backward,
        &TrainTimes::communication, &TrainTimes::optimizer}) {
    if (all.empty()) break;
    std::transform(all.begin(), all.end(), one.begin(),
                   [part](const TrainTimes& times) { return times.*part; });
    const auto middle = one.begin() + static_cast<std::ptrdiff_t>(one.size() / 2);
    std::nth_element(one.begin(), middle, one.end());
    result.*part = *middle;
  }
  return result;
}

} // namespace rondo::training
