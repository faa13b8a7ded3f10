// Round-robin groups: communicators of the same ranks, which the buckets of gradients take in turn.
#pragma once

#include <deque>
#include <vector>

#include "rondo/communicator.h"

namespace rondo::training {

/// The calls of one communicator run one behind the other: a bucket begins when the one before is
/// there. With several as many are on their way at once, and what a link carries meanwhile is no
/// longer broken off between two buckets. (PyTorch's round-robin process groups: Li et al., PyTorch
/// Distributed, 2020, section 5.4.)
class Groups {
 public:
  /// Collective. `first` is the first of so many; it must live as long.
  Groups(Communicator& first, int count) : all_{&first} {
    while (static_cast<int>(all_.size()) < count)
      all_.push_back(&own_.emplace_back(*first.split(0, first.rank())));
  }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  /// For a GradientReducer.
  const std::vector<Communicator*>& all() const { return all_; }

 private:
  std::deque<Communicator> own_;
  std::vector<Communicator*> all_;
};

} // namespace rondo::training
