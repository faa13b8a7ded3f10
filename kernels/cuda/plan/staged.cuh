// A launch, and the tables of its program, in memory that the block shares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/element/vector.h"
#include "kernels/cuda/plan/wait.cuh"
#include "kernels/cuda/tuning.h"

namespace rondo::kernels::cuda {

/// Copies to memory that the block shares. `bytes`: a multiple of 8; both sides are aligned to 8.
template <class Block>
RONDO_HOST_DEVICE void copyWords(std::byte* to, const void* from, std::size_t bytes,
                                 const Block& block) {
  using Word = std::uint64_t;
  const auto* const source = static_cast<const std::byte*>(from);
  RONDO_NO_UNROLL
  for (std::size_t at = block.thread() * sizeof(Word); at < bytes;
       at += block.threads() * sizeof(Word))
    PlainAccess::store(to + at, PlainAccess::load<Word>(source + at));
}

/// Has plain bytes, because shared memory of a GPU has no constructors. `kBytes`, `kRings`: room
/// for tables and rings.
template <std::size_t kBytes = kStagedBytes, std::uint32_t kRings = kStagedRings>
class StagedLaunch {
 public:
  /// Returns a launch that equals `original`, whose tables are in this memory if they fit. Each
  /// thread of the block calls it. `index`: of the block, see ProgramHeader::blocks().
  ///
  /// It reads nothing that a kernel writes, see LaunchFunction::launch(). So the kernel ahead of
  /// this launch on the stream may still run.
  template <class Block>
  RONDO_HOST_DEVICE const Launch& stage(const Launch& original, std::uint32_t index, Block& block) {
    const Program& program = original.program;
    const auto* const from = reinterpret_cast<const std::byte*>(program.lane);
    const auto bytes =
        static_cast<std::size_t>(reinterpret_cast<const std::byte*>(program.after) - from);
    const std::size_t first_ring = std::size_t{index / program.lanes} * program.channels;
    const bool fits = bytes <= kBytes && program.channels <= kRings;
    copyWords(launch_, &original, sizeof(Launch), block);
    if (fits) {
      copyWords(tables_, from, bytes, block);
      copyWords(rings_, original.rings + first_ring, program.channels * sizeof(Ring), block);
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
  /// Points a table to its copy. `from`: where the tables begin that were copied.
  template <class T>
  RONDO_HOST_DEVICE void move(const T*& table, const std::byte* from) const {
    table =
        reinterpret_cast<const T*>(tables_ + (reinterpret_cast<const std::byte*>(table) - from));
  }

  static constexpr std::size_t kAlign = 16;
  static_assert(sizeof(Launch) % 8 == 0 && alignof(Launch) <= kAlign);
  static_assert(sizeof(Ring) % 8 == 0 && alignof(Ring) <= kAlign);
  alignas(kAlign) std::byte launch_[sizeof(Launch)];
  alignas(kAlign) std::byte tables_[kBytes];
  alignas(kAlign) std::byte rings_[kRings * sizeof(Ring)];
};

} // namespace rondo::kernels::cuda
