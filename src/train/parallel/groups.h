// Round-robin groups: several communicators of the same ranks, which gradient buckets use in turn.
#pragma once

#include <deque>
#include <vector>

#include "rondo/communicator.h"

namespace rondo::training {

/// The calls of one communicator run one after the other: a bucket starts when the previous one is
/// complete. With N communicators N buckets are in flight, and a link stays busy between two
/// buckets of one communicator. (PyTorch's round-robin process groups: Li et al., PyTorch
/// Distributed, 2020, section 5.4.)
class Groups {
 public:
  /// Collective. Makes `count` communicators of the same ranks: `first` and copies of it. `first`
  /// must outlive this object.
  Groups(Communicator& first, int count) : all_{&first} {
    while (static_cast<int>(all_.size()) < count)
      all_.push_back(&own_.emplace_back(*first.split(0, first.rank())));
  }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  /// All communicators, for a GradientReducer.
  const std::vector<Communicator*>& all() const { return all_; }

 private:
  std::deque<Communicator> own_;
  std::vector<Communicator*> all_;
};

} // namespace rondo::training
