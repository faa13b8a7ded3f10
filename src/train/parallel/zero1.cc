// Strategy zero1 (ZeRO-1): every rank holds all parameters and gradients, and its shard of the
// optimizer state.
//
//   sent         when
//   gradients    ReduceScatter of each bucket as soon as the backward pass has filled it
//   parameters   Allgather of each bucket after the optimizer's step on the own shard; the next
//                forward pass waits for a bucket only when the first layer of the bucket needs it
//   2 sums       AllReduce of loss and stop flag during the last backward pass, and one of the
//                statistics of batch norms; with --clip or lars, another of norms after that pass
//   batch norms  AllReduce of the sums of each one within the passes, with --sync-batch-norm
//
// With M bytes of parameters N ranks send (N-1) M for gradients, once for each micro-batch, and
// (N-1) M for parameters: with one micro-batch as much as ddp. A rank holds M + M + A M/N, where
// the optimizer keeps A arrays.
//
// With --mesh data=D,shard=S the optimizer state is sharded over S ranks, and the D groups add up
// the gradients of their shards by AllReduce: 2 (D-1) M more, D (S-1) M in place of (N-1) M.
//
// Rajbhandari, Rasley, Ruwase, He, ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models, 2020: P_os.
#include "train/parallel/sharding/sharded.h"

namespace rondo::training::parallel {

extern const StrategyKind zero1;
const StrategyKind zero1 = shardedKind<ShardLevel::optimizer>(
    "zero1", "as ddp, but each rank keeps only its shard of the optimizer state", 1);

} // namespace rondo::training::parallel
