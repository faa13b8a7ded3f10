// One rank's share of a model, and what all ranks do with theirs at a meeting.
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

/// In what the sharded strategies differ.
struct Sharding {
  std::string name; ///< of the strategy, for errors
  ShardLevel level;
  std::vector<std::size_t> unit_bytes; ///< as shardLayout() takes its caps
};

class ShardedReplica {
 public:
  /// Collective. Throws, on all ranks, what Network does, and Error(invalid_argument) where some
  /// rank would hold more than memory_limit.
  ShardedReplica(const Setup& setup, const Sharding& sharding);

  Network& network() { return *network_; }
  ShardedModel& model() { return *model_; }
  const ShardedModel& model() const { return *model_; }
  /// That hold the same pieces.
  int groups() const { return mesh_.size(Axis::data); }
  /// Where a forward pass puts the batch's own statistics; empty: it has none.
  std::span<float> statistics() { return statistics_; }

  // Collective, as the functions of Strategy.
  std::uint64_t verify(const std::string& when);
  double evaluate();
  /// On rank 0 whole arrays, gathered into memory that forget() gives back; on others none.
  std::vector<TensorMemory> gather();
  void scatter(std::uint64_t steps);
  void forget() { whole_.clear(); }

 private:
  bool first() const { return mesh_.coordinate(Axis::data, comm_.rank()) == 0; }
  void checkMemory(const Setup& setup, const Sharding& sharding) const;
  void placeState();
  std::string firstNotFinite(const ShardUnit& unit, const float* values) const;

  Communicator& comm_;
  const Data& data_;
  const Mesh mesh_;
  Communicator shards_;
  std::optional<Communicator> replicas_; ///< those that hold the same pieces, if there are any
  std::unique_ptr<Network> network_;
  AlignedVector<float> state_, statistics_;
  std::unique_ptr<ShardedModel> model_;
  Loader test_;
  std::vector<AlignedVector<float>> whole_; ///< of the last gather(), on rank 0
};

} // namespace rondo::training
