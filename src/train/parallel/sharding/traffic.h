// What sharded training sends in a step, in closed form.
#pragma once

#include "train/parallel/sharding/layout.h"
#include "train/parallel/sharding/memory.h"

namespace rondo::training {

struct TrafficQuestion {
  ShardLevel level;
  int groups = 1; ///< that hold the same pieces
  int shards = 1; ///< ranks of each group
  int micro_batches = 1;
  bool narrow = false; ///< within groups as bfloat16
};

/// Elements that the ranks of a group gather in a step. Where parameters come and go that is each
/// unit forward and back, but for what is still in its slot: the last two units when the way back
/// begins, and the first when the next micro-batch does. With M elements, U of the last two units
/// and F of the first, and A micro-batches:
///
///   optimizer, gradients   M
///   parameters             A (2 M - U) - (A - 1) F
double gatheredElements(const ShardLayout& layout, const TrafficQuestion& question);

/// Bytes that all ranks send in a step, at 4 bytes an element (2 within groups where they are
/// narrow), if G are gathered:
///
///   groups (shards - 1) (A M + G)   each group: ReduceScatter, Allgather
///   2 (groups - 1) M                between groups: AllReduce of the pieces
double shardTraffic(const ShardLayout& layout, const TrafficQuestion& question);

} // namespace rondo::training
