// Windows: memory of each rank that one address reaches all at once, by a switch that stores to all
// of them and adds them up. Plain data for both sides; how it is used is in
// kernels/cuda/plan/switch.cuh, why that is enough in kernels/cuda/plan/PROOFS.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/program_kind.h"
#include "device/ring.h"

namespace rondo::device {

/// Whether the switch reduces this; for what a program computes with, see programKind(). It has no
/// product and no bits of single bytes, and its least and greatest floats pass over a NaN, which
/// ours do not.
constexpr bool switchReduces(DataType type, ReduceOp::Kind op) {
  using enum ReduceOp::Kind;
  const bool wide = type == DataType::int32 || type == DataType::uint32 ||
                    type == DataType::int64 || type == DataType::uint64;
  if (op == min || op == max) return wide;
  return (op == sum || op == premul_sum) &&
         (wide || type == DataType::float32 || type == DataType::float64 ||
          type == DataType::float16 || type == DataType::bfloat16);
}

/// What a rank tells all others when it comes to a meeting; in each rank's window, one for each
/// rank, which its rank alone writes.
struct alignas(32) Arrival {
  std::uint64_t number = 0;        ///< of the last meeting that it came to
  std::uint64_t calls[2] = {0, 0}; ///< see labelFor(): of even meetings, and of odd ones
};

/// All ranks' windows, with the addresses that one rank uses. Each copy of a plan has a part of its
/// own: arrivals, then room for a tile.
struct Window {
  std::byte* own = nullptr;
  std::byte* all = nullptr;          ///< reaches the same place of every rank's window
  std::uint64_t* meetings = nullptr; ///< by copy: how many there were; the rank's own memory, and
                                     ///< survives from launch to launch
  std::uint64_t stride = 0;          ///< from a copy's part to the next
  std::uint32_t rank = 0, ranks = 0;

  static constexpr RONDO_HOST_DEVICE std::uint64_t roomAt(std::uint32_t ranks) {
    return (ranks * sizeof(Arrival) + kRingLine - 1) / kRingLine * kRingLine;
  }
  RONDO_HOST_DEVICE std::byte* room(bool of_all, std::uint32_t copy) const {
    return (of_all ? all : own) + copy * stride + roomAt(ranks);
  }
  RONDO_HOST_DEVICE Arrival* arrivals(bool of_all, std::uint32_t copy) const {
    return reinterpret_cast<Arrival*>((of_all ? all : own) + copy * stride);
  }
};

/// How large a rank's window is. Without copies there is none.
struct WindowSize {
  std::uint32_t copies = 0, ranks = 0;
  std::size_t room = 0; ///< of a copy, for a tile; whole kRingLines

  constexpr std::size_t stride() const { return Window::roomAt(ranks) + room; }
  constexpr std::size_t bytes() const { return copies * stride(); }
};

} // namespace rondo::device
