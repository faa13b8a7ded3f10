// Durations in milliseconds, their medians, and the events of a step.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/train.h"
#include "train/report/record.h"

namespace rondo::training {

using Clock = std::chrono::steady_clock;

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
  Clock::time_point begin() const { return begin_; }

 private:
  static double milliseconds(Clock::duration passed) {
    return std::chrono::duration<double, std::milli>(passed).count();
  }
  Clock::time_point begin_ = Clock::now();
};

/// What one rank did in the steps that are observed closely.
struct Timeline {
  Clock::time_point zero; ///< at the same moment on all ranks
  int rank = 0;
  std::int64_t step = 0; ///< at work; the first of the training is 1
  std::vector<TimelineEvent> events;

  void add(const std::string& name, Lane lane, Clock::time_point begin, double seconds,
           std::uint64_t bytes = 0) {
    const double at = std::chrono::duration<double>(begin - zero).count();
    events.push_back({name, rank, lane, step, at, seconds, bytes});
  }
};

/// Shares out a step's time to its parts.
class StepClock {
 public:
  /// `timeline` is null if the step is not observed.
  StepClock(TrainTimes& times, Timeline* timeline) : times_(times), timeline_(timeline) {}

  /// What passed since it was made or last called belongs to this part, and is shown by this name;
  /// null: as a gap. Gives it, in milliseconds.
  double lap(double TrainTimes::*part, const char* name) {
    const Clock::time_point begin = watch_.begin();
    const double passed = watch_.lap();
    times_.*part += passed;
    if (timeline_ && name) timeline_->add(name, Lane::compute, begin, passed / 1000);
    return passed;
  }

 private:
  TrainTimes& times_;
  Timeline* timeline_;
  Stopwatch watch_;
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
