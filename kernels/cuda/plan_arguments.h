// What one launch of the plan kernel is told, and what it tells when it cannot end well.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/program.h"

namespace rondo::kernels::cuda {

/// Where and why a launch ended early. Zero: it did not.
struct Report {
  enum class Reason : std::uint32_t { none, aborted, timeout, mismatch };
  enum class Awaited : std::uint32_t { message, room, lane };

  Reason reason = Reason::none;
  Awaited awaited = Awaited::message;
  std::uint32_t block = 0, step = 0; ///< see ProgramHeader::blocks()
  std::uint64_t tile = 0;
  std::uint32_t whom = 0;      ///< channel (message, room) or block that it waited for
  std::uint64_t theirs = 0;    ///< mismatch: signature of the call that the message belongs to
  std::uint64_t signature = 0; ///< of the launch
};

/// What host and kernels of one communicator say to each other: in host memory that both see.
struct Panel {
  alignas(kRingLine) std::uint32_t abort = 0; ///< the host writes anything but 0: all kernels end
  alignas(kRingLine) std::uint32_t ended = 0; ///< a kernel writes 1, after `report`
  Report report;
};

/// In the device's memory, one per communicator. Once set it stays set: every later launch ends at
/// once, as does every replay of a graph that was captured before.
struct Halt {
  std::uint32_t halted = 0;
};

/// How far a block is: only grows, by ProgramHeader::ticks a launch. In the device's memory, zeroed
/// when the program is made, and the program's own.
struct alignas(kRingLine) LaneClock {
  std::uint64_t ticks = 0;
};

/// The kernel's only argument. All of it stays as it is in replays of a graph.
struct Launch {
  Program program;
  const Ring* rings = nullptr; ///< one per channel of the program, copy after copy
  LaneClock* clocks = nullptr; ///< one per block
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr; ///< ProgramHeader::scratch_bytes per copy
  double factor = 1.0;          ///< what is read from the input is multiplied by it
  std::int32_t divisor = 1;     ///< integer average
  /// Of the call, without a sequence number, so that it stays true in replays of a graph.
  std::uint64_t signature = 0;
  std::uint64_t timeout_ns = 0; ///< a wait that takes longer ends the launch
  Halt* halt = nullptr;
  Panel* panel = nullptr;
};

/// The label of a step's messages: the signature, with the size put where it holds a count.
RONDO_HOST_DEVICE std::uint64_t labelFor(const Launch& launch, const Step& step) {
  return launch.signature ^ ((step.bytes ^ step.bytes >> 32) & 0xffffffffu);
}

} // namespace rondo::kernels::cuda
