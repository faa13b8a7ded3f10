// What one launch of the plan kernel is told, and what it tells when it cannot end well.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/program.h"
#include "device/window.h"

namespace rondo::device {

/// Where and why a launch ended early. Zero: it did not.
struct Report {
  enum class Reason : std::uint32_t { none, aborted, timeout, mismatch, overlap };
  enum class Awaited : std::uint32_t { message, room, lane, meeting };

  Reason reason = Reason::none;
  Awaited awaited = Awaited::message;
  std::uint32_t block = 0, step = 0; ///< see ProgramHeader::blocks()
  std::uint64_t tile = 0;
  std::uint32_t whom = 0;   ///< channel (message, room), block or rank that it waited for
  std::uint64_t theirs = 0; ///< mismatch: signature of the call that the message belongs to
  std::uint64_t plan = 0;   ///< Launch::plan
  std::uint32_t job = 0;    ///< Launch::job
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
  /// The blocks of the communicator that run: each adds its launch's number, shifted by kBlockBits,
  /// and 1. So a block sees at once whether those before it are all of its own launch.
  std::uint64_t running = 0;
};
inline constexpr int kBlockBits = 20;

/// How far a block is: only grows, by ProgramHeader::ticks a launch. In the device's memory, zeroed
/// when the program is put there, and the program's own.
struct alignas(kRingLine) LaneClock {
  std::uint64_t ticks = 0;
  std::uint32_t busy = 0; ///< 1 while a block of a launch is on the lane
};

/// The kernel's only argument; of a batch, what a job needs. All of it stays as it is in replays of
/// a graph.
struct Launch {
  Program program;
  const Ring* rings = nullptr; ///< one per channel of the program, copy after copy
  LaneClock* clocks = nullptr; ///< one per block
  Window window;               ///< of a program that meets
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;         ///< ProgramHeader::scratch_bytes per copy
  double factor = 1.0;                  ///< what is read from the input is multiplied by it
  const std::byte* factor_at = nullptr; ///< an element of the program's type, in place of `factor`
  std::int32_t divisor = 1;             ///< integer average
  std::uint32_t job = 0;                ///< its place in Batch::jobs; else 0
  std::uint64_t plan = 0;               ///< by which the host knows the plan again
  /// Of the call, without a sequence number, so that it stays true in replays of a graph.
  std::uint64_t signature = 0;
  /// What labels hold of the sizes of messages; 0 where the signature says all about them.
  std::uint32_t label_sizes = 0xffffffff;
  /// Of the program in its place, or of the batch: launches of a communicator with different ones
  /// use the same rings, and may not run at the same time. The same in replays.
  std::uint32_t number = 0;
  std::uint64_t timeout_ns = 0; ///< a wait that takes longer ends the launch
  Halt* halt = nullptr;
  Panel* panel = nullptr;
};

/// A send or a receive of a batch: a program of one lane and one step, whose type is uint8 and
/// whose operator is bor, as of all programs that only move.
struct Job {
  const Launch* launch = nullptr; ///< in the device's memory; all but the buffer
  std::byte* buffer = nullptr;    ///< what is sent, or where it goes
};

/// Inputs and outputs of a job's step.
inline constexpr std::uint32_t kJobPlaces = 2;

/// As many as leave a batch within the 4 KiB of arguments that every toolkit allows.
inline constexpr std::uint32_t kBatchJobs = 224;

/// The argument of a launch that runs many jobs. Lane l does jobs first[l] to first[l + 1] one
/// after the other, and is `copies` blocks: block b runs copy b % copies of each job of lane b /
/// copies that has so many. Blocks wait for others of the launch only where a rank sends to itself.
struct Batch {
  std::uint32_t lanes = 0;
  std::uint32_t copies = 1;
  std::uint32_t number = 0; ///< Launch::number of all its jobs
  std::uint16_t first[kBatchJobs + 1] = {};
  Job jobs[kBatchJobs];

  std::uint32_t blocks() const { return lanes * copies; }
};
static_assert(sizeof(Batch) <= 4096);

/// The label of a step's messages: the signature, with the size put where it holds a count.
RONDO_HOST_DEVICE std::uint64_t labelFor(const Launch& launch, const Step& step) {
  return launch.signature ^ ((step.bytes ^ step.bytes >> 32) & launch.label_sizes);
}

} // namespace rondo::device
