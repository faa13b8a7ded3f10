// Computes the bytes that sharded training sends in a step.
#pragma once

#include "train/parallel/sharding/layout.h"
#include "train/parallel/sharding/memory.h"

namespace rondo::training {

struct TrafficQuestion {
  ShardLevel level;
  int groups = 1; ///< groups of ranks, each with the whole model
  int shards = 1; ///< ranks in each group
  int micro_batches = 1;
  bool narrow = false; ///< sent as bfloat16 within groups
};

/// Elements that the ranks of a group gather in a step. If parameters are sharded, each unit is
/// gathered for the forward pass and for the backward pass, except units that are still in their
/// slots: the last two when the backward pass begins, and the first when the next micro-batch
/// begins. With M elements, U of the last two units and F of the first, and A micro-batches:
///
///   optimizer, gradients   M
///   parameters             A (2 M - U) - (A - 1) F
double gatheredElements(const ShardLayout& layout, const TrafficQuestion& question);

/// Bytes that all ranks send in a step, with 4 bytes per element (2 within groups for bfloat16), if
/// G elements are gathered:
///
///   groups (shards - 1) (A M + G)   each group: ReduceScatter, Allgather
///   2 (groups - 1) M                between groups: AllReduce of the pieces
double shardTraffic(const ShardLayout& layout, const TrafficQuestion& question);

} // namespace rondo::training
