// Measures durations in milliseconds, their sums and medians, and the events of a step.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rondo/train.h"
#include "train/report/record.h"

namespace rondo::training {

using Clock = std::chrono::steady_clock;

inline double milliseconds(Clock::duration passed) {
  return std::chrono::duration<double, std::milli>(passed).count();
}

class Stopwatch {
 public:
  double read() const { return milliseconds(Clock::now() - begin_); }
  Clock::time_point begin() const { return begin_; }
  /// Starts again, and returns the new begin.
  Clock::time_point restart() { return begin_ = Clock::now(); }

 private:
  Clock::time_point begin_ = Clock::now();
};

/// What one rank did in the steps that are observed in detail.
struct Timeline {
  Clock::time_point zero; ///< the same moment on all ranks
  int rank = 0;
  std::int64_t step = 0; ///< the current step; the first step of the training is 1
  std::vector<TimelineEvent> events;

  void add(const std::string& name, Lane lane, Clock::time_point begin, double seconds,
           std::uint64_t bytes = 0) {
    const double at = std::chrono::duration<double>(begin - zero).count();
    events.push_back({name, rank, lane, step, at, seconds, bytes});
  }
};

/// A sum over ranks in the middle of a pass, after which the pass continues.
struct Exchange {
  Clock::time_point begin, end;
  std::uint64_t bytes;
};

/// Divides a step's time among its parts.
class StepClock {
 public:
  /// `timeline` is null if the step is not observed.
  StepClock(TrainTimes& times, Timeline* timeline) : times_(times), timeline_(timeline) {}

  /// Adds the time since the last call, or since construction, to this part. The timeline shows it
  /// under `name`, or as a gap if that is null. The time of `amid`, exchanges in order of time,
  /// counts as communication instead. Returns what was added to the part, in milliseconds.
  double lap(double TrainTimes::*part, const char* name, std::span<const Exchange> amid = {}) {
    Clock::time_point from = watch_.begin();
    double own = 0;
    for (const Exchange& exchange : amid) {
      own += piece(name, from, exchange.begin);
      const double waited = milliseconds(exchange.end - exchange.begin);
      times_.communication += waited;
      if (timeline_)
        timeline_->add("sum", Lane::communication, exchange.begin, waited / 1000, exchange.bytes);
      from = exchange.end;
    }
    own += piece(name, from, watch_.restart());
    times_.*part += own;
    return own;
  }

 private:
  double piece(const char* name, Clock::time_point begin, Clock::time_point end) {
    const double passed = milliseconds(end - begin);
    if (timeline_ && name) timeline_->add(name, Lane::compute, begin, passed / 1000);
    return passed;
  }

  TrainTimes& times_;
  Timeline* timeline_;
  Stopwatch watch_;
};

/// The times of all steps, in bounded memory.
class StepTimes {
 public:
  void add(const TrainTimes& times) {
    last_ = times;
    for (double TrainTimes::*const part : kParts) sum_.*part += times.*part;
    if (count_++ % apart_ != 0) return;
    kept_.push_back(times);
    if (kept_.size() < kMost) return;
    for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize(kMost / 2);
    apart_ *= 2;
  }

  std::size_t count() const { return count_; }
  /// Of the last step; zeros before the first.
  const TrainTimes& last() const { return last_; }
  const TrainTimes& sum() const { return sum_; }

  /// The median of each part over the steps, or in long runs over every second, fourth, ... step.
  TrainTimes medians() const {
    TrainTimes result;
    std::vector<double> one(kept_.size());
    for (double TrainTimes::*const part : kParts) {
      if (one.empty()) break;
      std::transform(kept_.begin(), kept_.end(), one.begin(),
                     [part](const TrainTimes& times) { return times.*part; });
      const auto middle = one.begin() + static_cast<std::ptrdiff_t>(one.size() / 2);
      std::nth_element(one.begin(), middle, one.end());
      result.*part = *middle;
    }
    return result;
  }

 private:
  static constexpr std::size_t kMost = 100'000;
  static constexpr double TrainTimes::*kParts[] = {
      &TrainTimes::step,     &TrainTimes::data,          &TrainTimes::forward,
      &TrainTimes::backward, &TrainTimes::communication, &TrainTimes::optimizer};

  std::vector<TrainTimes> kept_;
  std::size_t count_ = 0, apart_ = 1; ///< every so many steps one is kept
  TrainTimes last_, sum_;
};

} // namespace rondo::training
