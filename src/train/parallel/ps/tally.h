// Makes steps of the run of what single workers did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::training::servers {

/// A step of the run is as many steps of workers as there are workers, whosever they are.
class Tally {
 public:
  Tally(int workers, int batch) : batch_(batch), round_(static_cast<std::size_t>(workers)) {}

  /// At a meeting; `losses` is the sum over the epoch's steps so far.
  void begin(double losses) {
    steps_ = 0;
    losses_ = losses;
  }
  /// A worker's step, with the sum of its samples' losses. In a round to which every worker has
  /// contributed once, losses are added in the order of workers.
  void add(int worker, double loss) {
    auto place = static_cast<std::size_t>(worker);
    if (round_[place].there) place = firstFree();
    round_[place] = {true, loss};
    if (++filled_ < round_.size()) return;
    double sum = 0;
    for (Entry& one : round_) {
      sum += one.loss;
      one.there = false;
    }
    filled_ = 0;
    ++steps_;
    newest_ = sum / batch_;
    losses_ += newest_;
  }

  std::int64_t steps() const { return steps_; } ///< since the meeting
  double losses() const { return losses_; }
  double newest() const { return newest_; } ///< loss of the newest step

 private:
  struct Entry {
    bool there = false;
    double loss = 0;
  };

  std::size_t firstFree() const {
    std::size_t place = 0;
    while (round_[place].there) ++place;
    return place;
  }

  const double batch_;
  std::vector<Entry> round_;
  std::size_t filled_ = 0;
  std::int64_t steps_ = 0;
  double losses_ = 0, newest_ = 0;
};

} // namespace rondo::training::servers
