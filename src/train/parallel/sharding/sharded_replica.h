// One rank's shard of a model, and the collective operations on it at a synchronization point.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/aligned.h"
#include "train/data/loader.h"
#include "train/parallel/mesh.h"
#include "train/parallel/sharding/model.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

class ShardedReplica {
 public:
  /// Collective. Throws on all ranks: the errors of Network, and Error(invalid_argument) if some
  /// rank would hold more than memory_limit.
  ShardedReplica(const Setup& setup, ShardLevel level);

  Network& network() { return *network_; }
  ShardedModel& model() { return *model_; }
  const ShardedModel& model() const { return *model_; }
  /// Number of groups; all hold the same pieces.
  int groups() const { return mesh_.size(Axis::data); }
  /// Where a forward pass puts the statistics of the batch; empty if it has none.
  std::span<float> statistics() { return statistics_; }

  // Collective, like the functions of Strategy.
  std::uint64_t verify(const std::string& when);
  double evaluate();
  /// On rank 0 the whole arrays, gathered into memory that forget() frees; on other ranks empty.
  std::vector<TensorMemory> gather();
  void scatter(std::uint64_t steps);
  /// Not collective. This rank's pieces, and the running statistics, which all ranks hold.
  std::vector<StatePart> held();
  void forget() { whole_.clear(); }

 private:
  bool first() const { return mesh_.coordinate(Axis::data, comm_.rank()) == 0; }
  void checkMemory(const Setup& setup, ShardLevel level) const;
  void placeState();
  std::string firstNotFinite(const ShardUnit& unit, const float* values) const;

  Communicator& comm_;
  const Data& data_;
  const Mesh mesh_;
  Communicator shards_;
  std::optional<Communicator> replicas_; ///< ranks with the same pieces, if there are any
  std::unique_ptr<Network> network_;
  AlignedVector<float> state_, statistics_;
  std::unique_ptr<ShardedModel> model_;
  Loader test_;
  std::vector<AlignedVector<float>> whole_; ///< from the last gather(), on rank 0
};

} // namespace rondo::training
