// Runs a batch: the sends and receives of a group in one launch. Like kernel.cuh, this is compiled
// for the GPU and for the tests on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/plan/kernel.cuh"
#include "kernels/cuda/plan/staged.cuh"

namespace rondo::kernels::cuda {

/// Runs block `index` of the batch, see Batch. `launch`: memory that the block shares.
template <class Block>
RONDO_HOST_DEVICE void runBatch(const Batch& batch, std::uint32_t index, Launch& launch,
                                Block& block) {
  const std::uint32_t lane = index / batch.copies, copy = index % batch.copies;
  RONDO_NO_UNROLL
  for (std::uint32_t j = batch.first[lane]; j < batch.first[lane + 1]; ++j) {
    const Job& job = batch.jobs[j];
    if (copy >= job.launch->program.copies) continue;
    block.all(true); // no thread reads the previous job's launch any more
    copyWords(reinterpret_cast<std::byte*>(&launch), job.launch, sizeof(Launch), block);
    block.all(true);
    // run() begins with a barrier and reads these only after it.
    if (block.thread() == 0) {
      launch.input = launch.output = job.buffer;
      launch.job = j;
      launch.number = batch.number;
    }
    PlanKernel<Block, DataType::uint8, ReduceOp::Kind::bor>(launch, copy, block).run();
  }
}

} // namespace rondo::kernels::cuda
