// A sharded step as a value: what a rank calls for and computes, in its order; and as text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/parallel/mesh.h"
#include "train/parallel/sharding/layout.h"
#include "train/parallel/sharding/memory.h"

namespace rondo::training {

enum class ShardTask {
  gather,    ///< Allgather of the unit's parameters begins
  forward,   ///< its layers, behind the end of that
  backward,  ///< the same, back
  reduce,    ///< ReduceScatter of the unit's gradients begins
  replicate, ///< AllReduce of the own shard's gradients between groups begins, behind the reduce
  update,    ///< the optimizer, on the own shards of all units, behind all of these
};

struct ShardMove {
  ShardTask task;
  std::size_t unit = 0; ///< of update: nothing

  bool operator==(const ShardMove&) const = default;
};

/// One step of one micro-batch, the same on all ranks. What begins here goes on beside what comes
/// behind it. (What groups call for between them may begin later, but in this order.)
std::vector<ShardMove> shardMoves(const ShardLayout& layout, ShardLevel level, bool groups);

/// Units, the step's moves, bytes sent and held by an optimizer with so many arrays: for people.
std::string shardPlanText(const ShardLayout& layout, ShardLevel level, const Mesh& mesh,
                          std::size_t arrays, bool narrow = false);

} // namespace rondo::training
