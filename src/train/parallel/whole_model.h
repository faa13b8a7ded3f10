// What strategies share whose ranks all hold the whole model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/data/loader.h"
#include "train/loop/replica.h"
#include "train/optim/optimizer.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

/// This rank's replica, and what all ranks do with theirs at a meeting.
class WholeModel {
 public:
  /// Collective. Errors as of Network, the same on all ranks.
  explicit WholeModel(const Setup& setup);

  Replica& replica() { return *replica_; }

  /// Collective, as Strategy::verify(): all replicas hold the same values.
  std::uint64_t verify(const std::string& when);
  /// Collective, as Strategy::evaluate(): every rank takes some of the batches of the test set, and
  /// each is counted once.
  double evaluate();

  /// The values, and what the optimizer keeps, where they stand.
  std::vector<TensorMemory> tensors(Optimizer& optimizer);
  /// Collective. Gives all ranks rank 0's values of these.
  void broadcast(const std::vector<TensorMemory>& tensors);

 private:
  Communicator& comm_;
  const Data& data_;
  std::unique_ptr<Replica> replica_;
  Loader test_;
};

} // namespace rondo::training
