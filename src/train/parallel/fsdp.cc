// Strategy fsdp (ZeRO-3, fully sharded data parallelism): every rank holds its shard of parameters,
// gradients and optimizer state. A unit is a group of layers whose parameters are gathered
// together; its whole parameters exist only while its layers need them.
//
//   sent         when
//   parameters   Allgather of the next unit while the layers of a unit run, forward and backward;
//                the backward pass still has the last two units
//   gradients    ReduceScatter of a unit as soon as its last gradient is ready, while the backward
//                pass goes on with the layers before it
//   2 sums       AllReduce of loss and stop flag during the last backward pass, and one of the
//                statistics of batch norms; with --clip or lars, another of norms after that pass
//   batch norms  with --sync-batch-norm: an AllReduce of each layer's sums, in the forward and in
//                the backward pass
//
// With M bytes of parameters, U of them in the last two units, N ranks send (N-1) (3 M - U) bytes
// in a step of one micro-batch: 1.5 times as much as ddp. Each further micro-batch sends the
// same again, except the parameters of the first unit. A rank holds M/N + M/N + A M/N, where the
// optimizer keeps A arrays, and three slots for whole units (sharding/memory.h). Evaluation and
// hashing also go unit by unit; only rank 0 holds everything while it writes or reads a checkpoint.
//
// With --hook bf16 parameters and gradients are sent as bfloat16 within the sharding group, half
// the bytes. Layers compute with rounded parameters. The shard of a rank and its optimizer state
// stay float32 (the master weights, which checkpoints contain; hashes are of the rounded
// parameters). The gradients of a rank are rounded, added in float32, and the sum is rounded. This
// needs M/2N more memory. Micikevicius et al., Mixed Precision Training, 2018.
//
// With --mesh data=D,shard=S parameters are sharded over S ranks, and the D groups add up the
// gradients of their shards by AllReduce (hybrid sharding): 2 (D-1) M bytes more, and D (S-1) in
// place of N-1.
//
// Rajbhandari, Rasley, Ruwase, He, ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models, 2020: P_os+g+p. Units and hybrid sharding are those of Zhao et al., PyTorch FSDP:
// Experiences on Scaling Fully Sharded Data Parallel, 2023.
#include "train/parallel/sharding/sharded.h"

namespace rondo::training::parallel {

extern const StrategyKind fsdp;
const StrategyKind fsdp = shardedKind<ShardLevel::parameters>(
    "fsdp", "each rank keeps its shard of everything; layers are gathered while they are needed",
    0);

} // namespace rondo::training::parallel
