// Tuning constants of the CUDA kernels, each with its reason. None of them has been measured yet.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::kernels::cuda {

/// Threads of a block, and blocks that must fit on a multiprocessor at once. Together they allow a
/// thread 64 registers, which the widest loop needs to avoid spills (ctest cuda_resources), and
/// keep 1024 threads resident. Not measured.
inline constexpr int kReduceThreads = 512;
inline constexpr int kReduceBlocks = 2;

/// Vectors of an input that a thread loads before it uses the first. 1024 threads with 64 bytes
/// each have 64 KiB of loads in flight on a multiprocessor. Bandwidth times latency of an HBM3 GPU,
/// assumed as 5 TB/s and 1 us over 132 multiprocessors, is 37 KiB. Elements of one byte are widened
/// to 16 registers per vector, so only two vectors fit. Not measured.
constexpr int vectorsPerTurn(std::size_t element_bytes) { return element_bytes == 1 ? 2 : 4; }

/// Pointers that are passed as kernel arguments; more inputs need a table in memory. No machine has
/// more than 64 ranks. The arguments, about 700 bytes, are copied at each launch.
inline constexpr int kMaxInputs = 64;
inline constexpr int kMaxOutputs = 16;

/// Threads of a block of the plan kernel. One lane should use the full bandwidth of its
/// multiprocessor: 512 threads with vectorsPerTurn() loads each have 32 KiB in flight. Its loops
/// need more than 64 registers for a thread, so a multiprocessor holds one such block. Not
/// measured.
inline constexpr int kPlanThreads = 512;
/// Tables and rings that a block copies to shared memory, where a read takes a fraction of the
/// time. If the tables have more bytes, or a copy of the plan more channels, all of them stay in
/// global memory. The table Program::after always does. An AllReduce by `direct` of 8 ranks has
/// about 5 KiB and 14 channels. Not measured.
inline constexpr std::size_t kStagedBytes = 16 << 10;
inline constexpr std::uint32_t kStagedRings = 40;
/// Polls of a flag between two polls of the words that end a launch. One of these is in host
/// memory, which takes a microsecond; a poll of a flag takes about half of that. Not measured.
inline constexpr std::uint32_t kPlanLooks = 256;

} // namespace rondo::kernels::cuda
