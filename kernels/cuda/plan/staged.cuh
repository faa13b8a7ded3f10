// A launch, and the tables of its program, in memory that the block shares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/plan/wait.cuh"

namespace rondo::kernels::cuda {

/// A block reads its tables many times, and often nothing else can be done meanwhile. Shared memory
/// answers several times faster than global memory. Tables of more than kStagedBytes, or rings of
/// more than kStagedRings channels, stay in global memory.
inline constexpr std::size_t kStagedBytes = 16 << 10;
inline constexpr std::uint32_t kStagedRings = 40;

/// Has plain words, because shared memory of a GPU has no constructors.
class StagedLaunch {
 public:
  /// Returns a launch that equals `original`, whose tables are in this memory if they fit. Each
  /// thread of the block calls it. `index`: of the block, see ProgramHeader::blocks().
  ///
  /// It reads nothing that a kernel writes: tables and rings are copied from host memory. So the
  /// kernel ahead of this launch on the stream may still run.
  template <class Block>
  RONDO_HOST_DEVICE const Launch& stage(const Launch& original, std::uint32_t index, Block& block) {
    const Program& program = original.program;
    const auto* const from = reinterpret_cast<const std::byte*>(program.lane);
    const auto bytes =
        static_cast<std::size_t>(reinterpret_cast<const std::byte*>(program.after) - from);
    const std::size_t first_ring = std::size_t{index / program.lanes} * program.channels;
    const bool fits = bytes <= kStagedBytes && program.channels <= kStagedRings;
    copy(launch_, &original, sizeof(Launch), block);
    if (fits) {
      copy(tables_, from, bytes, block);
      copy(rings_, original.rings + first_ring, program.channels * sizeof(Ring), block);
    }
    block.all(true);
    auto& staged = *reinterpret_cast<Launch*>(launch_);
    if (fits && block.thread() == 0) {
      move(staged.program.lane, from);
      move(staged.program.steps, from);
      move(staged.program.places, from);
      move(staged.program.segments, from);
      move(staged.program.offsets, from);
      staged.rings = reinterpret_cast<const Ring*>(rings_) - first_ring;
    }
    block.all(true);
    return staged;
  }

 private:
  /// `bytes`: a multiple of 8.
  template <class Block>
  static RONDO_HOST_DEVICE void copy(std::uint64_t* to, const void* from, std::size_t bytes,
                                     const Block& block) {
    const auto* const words = static_cast<const std::uint64_t*>(from);
    RONDO_NO_UNROLL
    for (std::size_t i = block.thread(); i < bytes / sizeof(std::uint64_t); i += block.threads())
      to[i] = words[i];
  }
  /// Points a table to its copy. `from`: where the tables begin that were copied.
  template <class T>
  RONDO_HOST_DEVICE void move(const T*& table, const std::byte* from) const {
    table = reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(tables_) +
                                       (reinterpret_cast<const std::byte*>(table) - from));
  }

  static_assert(sizeof(Launch) % sizeof(std::uint64_t) == 0);
  static_assert(sizeof(Ring) % sizeof(std::uint64_t) == 0);
  alignas(16) std::uint64_t launch_[sizeof(Launch) / sizeof(std::uint64_t)];
  alignas(16) std::uint64_t tables_[kStagedBytes / sizeof(std::uint64_t)];
  alignas(16) std::uint64_t rings_[kStagedRings * sizeof(Ring) / sizeof(std::uint64_t)];
};

} // namespace rondo::kernels::cuda
