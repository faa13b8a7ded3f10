// The bytes of a process's record of calls, which other processes read. Change kVersion with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rondo/collectives.h"

namespace rondo::observe {

inline constexpr std::uint64_t kMagic = 0x534c4c4143444e52; ///< "RNDCALLS"
inline constexpr std::uint32_t kVersion = 7;
inline constexpr std::size_t kPage = 4096;

/// The first page of the file.
struct FileHead {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t blocks = 0; ///< capacity of the file; unused blocks are zero
  std::uint64_t process = 0;
  std::uint64_t ticks = 0;       ///< the time-stamp counter ...
  std::uint64_t nanoseconds = 0; ///< ... and CLOCK_MONOTONIC, which no one sets
  char host[64] = {};
};

/// One call. `number` is stored last; 0: never used.
struct Record {
  std::uint64_t number = 0;   ///< counts the calls of the communicator from 1
  std::uint64_t sequence = 0; ///< as error texts name it: of collectives, or of messages to a peer
  std::uint64_t entered = 0;  ///< ticks
  std::uint64_t ended = 0;    ///< ticks; the lowest bit: it failed; 0: in flight
  std::uint64_t what = 0;     ///< see Shape::packed()
  std::uint64_t count = 0;
};

/// What a call in flight waits for, as it was at the last look.
struct Wait {
  std::uint64_t number = 0; ///< of the call
  std::uint64_t since = 0;  ///< nanoseconds without progress
  std::int32_t peer = -1;
  char text[140] = {}; ///< ends with a zero
};

enum class State : std::uint32_t { unused, open, closed };

/// The first page of a block. A block here is the record area of one rank of a communicator.
struct BlockHead {
  static constexpr std::size_t kAlgorithms = 32, kWaits = 6;
  static constexpr std::size_t kCollectives = 20; ///< with room for later ones

  State state = State::unused;
  std::int32_t rank = -1, size = 0;
  std::int32_t culprit = -1; ///< of the failure: its rank in the communicator
  std::uint64_t job = 0, communicator = 0;
  std::uint64_t claimed = 0;  ///< number of the last call, stored before its record is written
  std::uint64_t entered = 0;  ///< sequence number of the last collective
  std::uint64_t opened = 0;   ///< counts the uses of the blocks of this process
  std::uint64_t capacity = 0; ///< records in use: call n is record n % capacity
  std::uint64_t waits = 0;    ///< in wait[waits >> 8 & 1]: the lowest byte is their number
  Record last = {};           ///< of a closed communicator: its last call, or the first that failed
  char transports[64] = {};
  char failure_code[32] = {}; ///< empty: it has not failed
  char failure[600] = {};
  std::int32_t culprit_in_job = -1; ///< its rank in the job
  std::uint64_t failed = 0;         ///< when: nanoseconds of CLOCK_MONOTONIC
  char algorithms[kAlgorithms][32] = {};
  Wait wait[2][kWaits] = {}; ///< of the last look, and of one that has not ended
  /// By collective, since the communicator exists: its calls that began, and their bytes.
  std::uint64_t calls[kCollectives] = {}, bytes[kCollectives] = {};
};

inline constexpr std::size_t kFewRecords = 64, kMostRecords = 2048;
/// Records of a traced communicator. With twice as many, a call costs 6 ns more: they do not stay
/// in the processor's second cache (of 2 MiB).
inline constexpr std::size_t kMostTraced = 16384;
/// Pages of a block: its head, and its records.
inline constexpr std::size_t kBlockBytes = kPage + kMostTraced * sizeof(Record);
inline constexpr std::size_t kFewBytes = 2 * kPage;

static_assert(sizeof(FileHead) <= kPage && sizeof(BlockHead) <= kPage);
static_assert(kCollectiveCount <= BlockHead::kCollectives);
static_assert(kBlockBytes % kPage == 0 && kFewRecords * sizeof(Record) <= kPage);
static_assert(std::is_trivially_copyable_v<BlockHead> && std::is_trivially_copyable_v<Record>);

constexpr std::size_t blockAt(std::size_t index) { return kPage + index * kBlockBytes; }

} // namespace rondo::observe
