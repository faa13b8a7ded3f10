// Windows: memory of each rank that a switch between GPUs can access at once, through one address:
// it stores to all windows, or adds them up. The structures are plain data for host and device.
// kernels/cuda/plan/switch.cuh uses them, and kernels/cuda/plan/PROOFS.md proves that the memory
// orders are sufficient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/program_kind.h"
#include "device/ring.h"

namespace rondo::device {

/// Whether the switch can reduce this type with this operator. The arguments are those of a
/// program, see programKind(). The switch has no product and no operation on the bits of single
/// bytes. Minima and maxima of floats are left out: nobody has compared what the switch returns for
/// NaNs and for zeros of both signs with Rondo's results.
constexpr bool switchReduces(DataType type, ReduceOp::Kind op) {
  using enum ReduceOp::Kind;
  const bool wide = type == DataType::int32 || type == DataType::uint32 ||
                    type == DataType::int64 || type == DataType::uint64;
  if (op == min || op == max) return wide;
  return (op == sum || op == premul_sum) &&
         (wide || type == DataType::float32 || type == DataType::float64 ||
          type == DataType::float16 || type == DataType::bfloat16);
}

/// The message with which a rank announces to all others that it has reached a barrier. Each rank's
/// window has one for each rank, which only that rank writes.
struct alignas(32) Arrival {
  std::uint64_t number = 0;        ///< number of the last barrier that it reached
  std::uint64_t calls[2] = {0, 0}; ///< see labelFor(): of even and of odd barriers
};

/// All ranks' windows, with the addresses that one rank uses. Each copy of a plan has a part of its
/// own: the arrivals, then room for a tile.
struct Window {
  std::byte* own = nullptr;
  std::byte* all = nullptr; ///< reaches the same offset of every rank's window
  /// Number of barriers so far, by copy; in the rank's own memory, kept between launches.
  std::uint64_t* meetings = nullptr;
  std::uint64_t stride = 0; ///< distance between the parts of two copies
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

/// The size of a rank's window. If `copies` is 0, there is no window.
struct WindowSize {
  std::uint32_t copies = 0, ranks = 0;
  std::size_t room = 0; ///< for one copy's tile; a multiple of kRingLine

  constexpr std::size_t stride() const { return Window::roomAt(ranks) + room; }
  constexpr std::size_t bytes() const { return copies * stride(); }
};

} // namespace rondo::device
