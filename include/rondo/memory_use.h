// MemoryUse: what a communicator's messages need.
#pragma once

#include <cstddef>

namespace rondo {

/// Memory that this rank of a communicator has reserved for messages. All values but `channels` are
/// in bytes. Channels open with the first call that uses them and stay open. Parts of slots
/// that were never used take no memory. Plans (a few KiB for each shape of call) and memory from
/// allocate() are not counted.
struct MemoryUse {
  std::size_t channels = 0; ///< number of channels on which this rank sends
  /// Slots of the channels on which this rank sends to peers that share memory with it. Between
  /// devices over a network: slots of the channels in both directions.
  std::size_t slots = 0;
  /// Copies of messages that TCP or UCX cannot send from, or receive into, user memory; and of
  /// messages from another process's private memory that this rank only passes on, or stores in
  /// pieces.
  std::size_t staging = 0;
  std::size_t scratch = 0; ///< for partial results

  std::size_t bytes() const { return slots + staging + scratch; }
};

} // namespace rondo
