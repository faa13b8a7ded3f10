// Measures the collectives of a step for its timeline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "train/loop/stopwatch.h"

namespace rondo::training {

/// The collectives that are in flight. The end of each is only known as precisely as look() is
/// called often.
class Passages {
 public:
  /// Adds collectives to this timeline from now on; if it is null, nothing is recorded. Drops those
  /// that are in flight.
  void observe(Timeline* timeline) {
    timeline_ = timeline;
    under_way_.clear();
  }

  /// Records that a collective was called. The Work must not move.
  void begin(const char* what, std::size_t unit, std::uint64_t bytes, Work& work) {
    if (timeline_)
      under_way_.push_back(
          {what + std::string(" ") + std::to_string(unit), bytes, &work, Clock::now()});
  }

  void look() {
    std::erase_if(under_way_, [this](const Passage& one) {
      if (!one.work->test()) return false;
      const std::chrono::duration<double> took = Clock::now() - one.begin;
      timeline_->add(one.name, Lane::communication, one.begin, took.count(), one.bytes);
      return true;
    });
  }

 private:
  struct Passage {
    std::string name;
    std::uint64_t bytes = 0;
    Work* work = nullptr;
    Clock::time_point begin;
  };

  Timeline* timeline_ = nullptr;
  std::vector<Passage> under_way_;
};

} // namespace rondo::training
