// Shared by the strategies in which every rank holds the whole model.
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

/// This rank's replica, and the collective operations on replicas at a synchronization point.
class WholeModel {
 public:
  /// Collective. Throws the errors of Network, the same on all ranks.
  explicit WholeModel(const Setup& setup);

  Replica& replica() { return *replica_; }

  /// Collective, implements Strategy::verify(): all replicas must hold the same values.
  std::uint64_t verify(const std::string& when);
  /// Collective, implements Strategy::evaluate(): each rank evaluates some batches of the test set,
  /// and each batch is counted once.
  double evaluate();

  /// The values and the optimizer state, without copying.
  std::vector<TensorMemory> tensors(Optimizer& optimizer);
  /// The same for Strategy::held().
  std::vector<StatePart> parts(Optimizer& optimizer);
  /// Collective. Gives all ranks the values of these tensors on rank 0.
  void broadcast(const std::vector<TensorMemory>& tensors);

 private:
  Communicator& comm_;
  const Data& data_;
  std::unique_ptr<Replica> replica_;
  Loader test_;
};

} // namespace rondo::training
