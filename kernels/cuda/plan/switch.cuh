// The operations of a step on the switch between GPUs: the sum of all ranks' windows, and stores to
// all windows. Like kernel.cuh, this is compiled for the GPU and for the tests on the host. It
// needs these functions of a Block in addition:
//
//   sum<type, operator>(at)      the sum over all windows of the vector at this address, element by
//                                element; the switch chooses the order of the ranks
//   storeToAll(at, value)        stores 8 or 16 aligned bytes to all windows. Both are relaxed, at
//                                system scope
//   releaseToAll(word, value)    the same as a release: orders everything that came before
//   fenceAliases()               orders this thread's accesses at a rank's own address of a window
//                                with those at the address of all windows
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/probe.h"
#include "device/window.h"
#include "kernels/cuda/element/vector.h"

namespace rondo::kernels::cuda {

/// One thread of the kernel that tests a switch, as probeWord() tests a link: stores its word to
/// all windows, and loads the sum over all windows.
template <class Block>
RONDO_HOST_DEVICE void probeSwitch(const device::Probe& probe, std::uint32_t word) {
  if (probe.to) Block::releaseToAll(probe.to + word, probe.words[word]);
  if (!probe.from) return;
  const std::uint32_t first = word & ~1u; // index of the first word of the vector
  const Vector sums = Block::template sum<DataType::uint64, ReduceOp::Kind::sum>(
      reinterpret_cast<const std::byte*>(probe.from + first));
  const std::uint32_t low = word == first ? sums.words[0] : sums.words[2];
  const std::uint32_t high = word == first ? sums.words[1] : sums.words[3];
  probe.seen[word] = static_cast<std::uint64_t>(high) << 32 | low;
}

/// Called by all threads of the block. The switch moves whole vectors: chunks in windows begin at a
/// multiple of a vector, and have room for a whole last one (see plan::kWindowAlignBytes).
template <class Block, DataType kType, ReduceOp::Kind kOp>
class SwitchMover {
 public:
  explicit RONDO_HOST_DEVICE SwitchMover(Block& block) : block_(block) {}

  /// `from`: in all windows. `to`: in all windows too, or local memory at any address.
  RONDO_HOST_DEVICE void sum(const std::byte* from, std::byte* to, bool to_all,
                             std::uint64_t bytes) const {
    if constexpr (device::switchReduces(kType, kOp))
      forEachVector(
          bytes, [&](std::uint64_t at) { return block_.template sum<kType, kOp>(from + at); },
          [&](std::uint64_t at, const Vector& sum) {
            if (to_all) block_.storeToAll(to + at, sum);
            else put(to + at, bytes - at, sum);
          });
  }

  /// `from`: local memory at any address. `to`: in all windows.
  RONDO_HOST_DEVICE void store(const std::byte* from, std::byte* to, std::uint64_t bytes) const {
    forEachVector(
        bytes, [&](std::uint64_t at) { return get(from + at, bytes - at); },
        [&](std::uint64_t at, const Vector& value) { block_.storeToAll(to + at, value); });
  }

 private:
  /// Vectors that a thread has in flight to the switch and back. Not measured. With more, some
  /// kernels for sm_100 and sm_120 spill registers.
  static constexpr int kFlying = 2;

  template <class Load, class Store>
  RONDO_HOST_DEVICE void forEachVector(std::uint64_t bytes, const Load& load,
                                       const Store& store) const {
    const std::uint64_t stride = block_.threads() * sizeof(Vector);
    RONDO_NO_UNROLL
    for (std::uint64_t at = block_.thread() * sizeof(Vector); at < bytes; at += kFlying * stride) {
      Vector vectors[kFlying];
      RONDO_UNROLL
      for (int n = 0; n < kFlying; ++n)
        if (at + n * stride < bytes) vectors[n] = load(at + n * stride);
      RONDO_UNROLL
      for (int n = 0; n < kFlying; ++n)
        if (at + n * stride < bytes) store(at + n * stride, vectors[n]);
    }
  }

  /// The vector at `from`, or only its first `left` bytes; reads no other byte.
  static RONDO_HOST_DEVICE Vector get(const std::byte* from, std::uint64_t left) {
    if (left >= sizeof(Vector) && misalignment(from) == 0) return PlainAccess::load<Vector>(from);
    Vector vector{};
    RONDO_UNROLL
    for (unsigned i = 0; i < sizeof(Vector); ++i)
      if (i < left)
        vector.words[i / 4] |= static_cast<std::uint32_t>(PlainAccess::load<std::uint8_t>(from + i))
                               << (8 * (i % 4));
    return vector;
  }
  static RONDO_HOST_DEVICE void put(std::byte* to, std::uint64_t left, const Vector& vector) {
    const Vector one[1] = {vector};
    if (left >= sizeof(Vector)) return storeVectors<PlainAccess, sizeof(Vector), false>(to, one);
    RONDO_UNROLL
    for (unsigned i = 0; i < sizeof(Vector); ++i)
      if (i < left)
        PlainAccess::store(to + i, static_cast<std::uint8_t>(vector.words[i / 4] >> (8 * (i % 4))));
  }

  Block& block_;
};

} // namespace rondo::kernels::cuda
