// Counts the steps of the run from the steps of single workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::training::servers {

/// With W workers, any W worker steps make one step of the run, even if one worker did several of
/// them.
class Tally {
 public:
  Tally(int workers, int batch) : batch_(batch), round_(static_cast<std::size_t>(workers)) {}

  /// Called at a synchronization point; `losses` is the sum over the epoch's steps so far.
  void begin(double losses) {
    steps_ = 0;
    losses_ = losses;
  }
  /// Adds a worker's step, with the sum of the losses of its samples. If every worker contributes
  /// once to a step of the run, its losses are added in the order of the workers.
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

  std::int64_t steps() const { return steps_; } ///< since the synchronization point
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
