// The arguments of one launch of the plan kernel, and the report of a launch that ended early.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/program.h"
#include "device/window.h"

namespace rondo::device {

/// Where and why a launch ended early. Reason none: it did not.
struct Report {
  enum class Reason : std::uint32_t { none, aborted, timeout, mismatch, overlap };
  enum class Awaited : std::uint32_t { message, room, lane, meeting };

  Reason reason = Reason::none;
  Awaited awaited = Awaited::message;
  std::uint32_t block = 0, step = 0; ///< see ProgramHeader::blocks()
  std::uint64_t tile = 0;
  std::uint32_t whom = 0;   ///< channel (message, room), block or rank that it waited for
  std::uint64_t theirs = 0; ///< mismatch: signature of the call to which the message belongs
  std::uint64_t plan = 0;   ///< Launch::plan
  std::uint32_t job = 0;    ///< Launch::job
};

/// Shared state of the host and the kernels of one communicator, in host memory that both see.
struct Panel {
  alignas(kRingLine) std::uint32_t abort = 0; ///< set by the host; if not 0, all kernels end
  alignas(kRingLine) std::uint32_t ended = 0; ///< a kernel writes 1, after `report`
  Report report;
};

/// In device memory, one for each communicator. It is never reset: once set, every later launch
/// ends at once, and so does every replay of a graph.
struct Halt {
  std::uint32_t halted = 0;
  /// The running blocks of the communicator. Each block adds its launch's number, shifted by
  /// kBlockBits, and 1. From the previous value a block sees whether all running blocks belong to
  /// its own launch.
  std::uint64_t running = 0;
};
inline constexpr int kBlockBits = 20;

/// The progress of one block. It only grows, by ProgramHeader::ticks in each launch. It is in
/// device memory, belongs to one program, and is zeroed when the program is copied to the device.
struct alignas(kRingLine) LaneClock {
  std::uint64_t ticks = 0;
  std::uint32_t busy = 0; ///< 1 while a block of a launch runs the lane
};

/// The argument of the kernel; in a batch, the description of one job. It does not change between
/// replays of a graph.
struct Launch {
  Program program;
  const Ring* rings = nullptr; ///< one for each channel of the program, copy after copy
  LaneClock* clocks = nullptr; ///< one for each block
  Window window;               ///< of a program with barriers
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr; ///< ProgramHeader::scratch_bytes for each copy
  /// Elements read from the call's input are multiplied by it.
  double factor = 1.0;
  /// An element of the program's type, used instead of `factor`.
  const std::byte* factor_at = nullptr;
  std::int32_t divisor = 1; ///< integer average: the output is divided by it
  std::uint32_t job = 0;    ///< index in Batch::jobs; 0 outside batches
  std::uint64_t plan = 0;   ///< identifies the plan for the host
  /// Of the call, without the sequence number, so that it is also right in replays of a graph.
  std::uint64_t signature = 0;
  /// Mask for the size of a message in its label; 0 if the signature already covers the sizes.
  std::uint32_t label_sizes = 0xffffffff;
  /// Identifies the program's copy on the device, or the batch. Launches of a communicator with
  /// different numbers use the same rings, so they must not run at the same time. Replays have the
  /// same number.
  std::uint32_t number = 0;
  std::uint64_t timeout_ns = 0; ///< a wait that takes longer ends the launch
  Halt* halt = nullptr;
  Panel* panel = nullptr;
};

/// A send or receive of a batch: a program of one lane and one step. Its type is uint8 and its
/// operator bor, as for all programs that only move data.
struct Job {
  const Launch* launch = nullptr; ///< in device memory; without the buffer
  std::byte* buffer = nullptr;    ///< the buffer that is sent, or that receives
};

/// Inputs and outputs of a job's step.
inline constexpr std::uint32_t kJobPlaces = 2;

/// As many jobs as fit the 4 KiB of kernel arguments that every toolkit allows.
inline constexpr std::uint32_t kBatchJobs = 224;

/// The argument of a launch that runs many jobs. Lane l does jobs first[l] to first[l + 1] - 1 one
/// after the other, with `copies` blocks: block b runs copy b % copies of each job of lane b /
/// copies that has that many copies. A block waits for other blocks of the launch only if a rank
/// sends to itself.
struct Batch {
  std::uint32_t lanes = 0;
  std::uint32_t copies = 1;
  std::uint32_t number = 0; ///< Launch::number of all its jobs
  std::uint16_t first[kBatchJobs + 1] = {};
  Job jobs[kBatchJobs];

  std::uint32_t blocks() const { return lanes * copies; }
};
static_assert(sizeof(Batch) <= 4096);

/// The label of a step's messages: the signature combined with the message's size.
RONDO_HOST_DEVICE std::uint64_t labelFor(const Launch& launch, const Step& step) {
  return launch.signature ^ ((step.bytes ^ step.bytes >> 32) & launch.label_sizes);
}

} // namespace rondo::device
