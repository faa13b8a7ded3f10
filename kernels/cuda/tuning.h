// The constants of the CUDA kernels, and what each rests on. None has been measured yet.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::kernels::cuda {

/// Threads of a block, and blocks that must fit on a multiprocessor at once: together they allow a
/// thread 64 registers, which is what the widest loop needs without spilling (ctest
/// cuda_resources), and keep 1024 threads resident. Not measured.
inline constexpr int kReduceThreads = 512;
inline constexpr int kReduceBlocks = 2;

/// Vectors that a thread loads of an input before it uses the first. 1024 threads with 64 bytes
/// each have 64 KiB of loads in flight on a multiprocessor; bandwidth times latency of an HBM3
/// card, taken as 5 TB/s and 1 us over 132 multiprocessors, is 37 KiB. Elements of one byte widen
/// to 16 registers a vector, so there only two fit. Not measured.
constexpr int vectorsPerTurn(std::size_t element_bytes) { return element_bytes == 1 ? 2 : 4; }

/// Pointers that are passed as arguments of the kernel; more inputs go through a table in memory.
/// 64 ranks on one machine are more than any has. The size of the arguments, about 700 bytes, is
/// copied at each launch.
inline constexpr int kMaxInputs = 64;
inline constexpr int kMaxOutputs = 16;

/// Tensors per launch of the bucket kernels: as many as fit into the 4 KiB of arguments that every
/// toolkit allows.
inline constexpr int kMaxTensors = 240;
/// Threads of a block there, and blocks that must fit on a multiprocessor: 40 registers a thread,
/// 1536 threads with 16 or 32 bytes of loads in flight each. Not measured.
inline constexpr int kBucketThreads = 256;
inline constexpr int kBucketBlocks = 6;
/// Elements that a block moves before it looks for the next tensor. Larger ones search less often,
/// smaller ones waste less of the grid on the short tensors of a model. Not measured.
inline constexpr std::size_t kBucketChunk = 8192;

/// Threads of a block of the plan kernel. One lane should draw what its multiprocessor can: 512
/// threads with vectorsPerTurn() loads each have 32 KiB in flight. Its loops need more than 64
/// registers a thread, so a multiprocessor holds one such block. Not measured.
inline constexpr int kPlanThreads = 512;
/// Looks at a flag between two looks at the words that end a launch. One of these lies in the
/// host's memory, a microsecond away; a look at a flag takes about half of that. Not measured.
inline constexpr std::uint32_t kPlanLooks = 256;

} // namespace rondo::kernels::cuda
