// ZeRO-3, fully sharded data parallel: every rank holds parameters, gradients and the optimizer's
// state of its shard; whole parameters are there unit by unit, while layers need them.
//
//   sent        when
//   parameters  Allgather of the next unit while a unit's layers run, forward and back; on the way
//               back the last two units are still there
//   gradients   ReduceScatter of a unit as soon as its last gradient stands, beside the layers in
//               front of it
//   2 sums      AllReduce of loss and stop flag beside the last backward pass, and of the
//               statistics of batch norms; with --clip or lars, behind it, of norms
//   batch norms AllReduce of each one's sums within the passes, with --sync-batch-norm
//
// With M bytes of parameters, U of the last two units, N ranks send (N-1) (3 M - U) in a step of
// one micro-batch: 1.5 times as much as ddp. Each further micro-batch costs as much again, without
// the first unit. A rank holds M/N + M/N + A M/N, where the optimizer keeps A arrays, and three
// slots for whole units (sharding/memory.h). Evaluation and hashes come by unit for unit too; only
// rank 0 holds all while it writes or reads a checkpoint.
//
// With --hook bf16 parameters and gradients travel as bfloat16 within the group, half the bytes:
// layers get parameters that were rounded, a rank's shard and its optimizer stay float32 (the
// masters, which checkpoints hold; hashes are of what layers get). Gradients of a rank are rounded,
// added in float32, and their sum is rounded. It costs M/2N more memory. Micikevicius et al., Mixed
// Precision Training, 2018.
//
// With --mesh data=D,shard=S parameters are shared out over S ranks, and the D groups add up their
// shards' gradients by AllReduce (hybrid sharding): 2 (D-1) M more, D (S-1) in place of N-1.
//
// Rajbhandari, Rasley, Ruwase, He, ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models, 2020: P_os+g+p; Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data
// Parallel, 2023, whose units and hybrid sharding these are.
#include "train/parallel/sharding/sharded.h"

namespace rondo::training::parallel {

namespace {

Sharding sharding(const TrainOptions& options) {
  return {.name = "fsdp", .level = ShardLevel::parameters, .unit_bytes = {options.unit_bytes}};
}

} // namespace

extern const StrategyKind fsdp;
const StrategyKind fsdp{
    .name = "fsdp",
    .summary = "each rank keeps its shard of everything; units are whole while layers need them",
    .takes = {"accumulate", "sync_batch_norm", "clip", "overlap", "unit_bytes", "mesh",
              "memory_limit", "hook"},
    .check = checkSharded,
    .make = [](const Setup& setup) { return makeSharded(setup, sharding(setup.options)); },
    .show = [](const TrainOptions& options, const Dataset& samples,
               int ranks) { return showSharded(options, samples, ranks, sharding(options)); },
};

} // namespace rondo::training::parallel
