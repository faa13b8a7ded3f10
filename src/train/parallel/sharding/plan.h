// The moves of a sharded step as a value: what a rank calls and computes, in order. Also prints
// them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/parallel/mesh.h"
#include "train/parallel/sharding/layout.h"
#include "train/parallel/sharding/memory.h"

namespace rondo::training {

enum class ShardTask {
  gather,   ///< starts the Allgather of the unit's parameters
  forward,  ///< forward pass of the unit's layers, after its Allgather has ended
  backward, ///< backward pass of the unit's layers, likewise
  reduce,   ///< starts the ReduceScatter of the unit's gradients
  /// Starts the AllReduce of the own shard's gradients between groups, after the ReduceScatter.
  replicate,
  update, ///< the optimizer, on the own shards of all units, after all of the above
};

struct ShardMove {
  ShardTask task;
  std::size_t unit = 0; ///< not used by update

  bool operator==(const ShardMove&) const = default;
};

/// A step of one micro-batch, the same on all ranks. A collective that starts here runs while the
/// following moves go on. (AllReduces between groups may start later, but in this order.)
std::vector<ShardMove> shardMoves(const ShardLayout& layout, ShardLevel level, bool groups);

/// Prints the units, the moves of the step, and the bytes sent and held, for an optimizer with
/// `arrays` arrays.
std::string shardPlanText(const ShardLayout& layout, ShardLevel level, const Mesh& mesh,
                          std::size_t arrays, bool narrow = false);

} // namespace rondo::training
