// Reads a communicator's record while calls go on, and gives each call a lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "observe/layout.h"

namespace rondo::observe {

class Block;

/// Follows a record of this process from one call on. One thread at a time, on any thread: the one
/// that makes the calls does not wait for it. Keeps the block mapped, also after the communicator
/// is closed.
class Follower {
 public:
  struct Call {
    Record record;
    std::uint32_t lane; ///< calls of a lane do not overlap; the first is 0
  };

  /// Reads calls from number `first` on.
  Follower(std::shared_ptr<Block> block, std::uint64_t first);

  /// Number of the last call that has begun.
  std::uint64_t last() const;
  /// Calls that were not read yet, and those that were in flight when they were read.
  std::uint64_t unread() const;
  /// Reads some more calls, up to number `last`, and those that were in flight before. Appends the
  /// ones that ended before `ticks`. Returns whether there may be more.
  bool read(std::uint64_t last, std::uint64_t ticks, std::vector<Call>& ended);
  /// Calls that were overwritten before they were read, or before they ended; counts from 0 again.
  std::uint64_t takeMissed();
  /// The lane of a call that was in flight when read() last saw it, or 0.
  std::uint32_t laneOf(std::uint64_t number) const;
  /// The name of an algorithm; see Record::what.
  std::string_view algorithm(std::uint8_t index) const;

 private:
  struct Lane {
    std::uint64_t call = 0;  ///< the one in flight, or 0
    std::uint64_t until = 0; ///< ticks: the end of the last one
  };
  Record copy(std::uint64_t number) const;
  std::uint64_t oldest();
  Record find(std::uint64_t number);
  void settle(std::uint64_t ticks, std::vector<Call>& ended);
  void place(const Record& record, std::uint64_t ticks, std::vector<Call>& ended);

  const std::shared_ptr<Block> block_;
  BlockHead& head_;
  Record* const records_;
  std::uint64_t capacity_ = 0; ///< as oldest() last saw it
  std::uint64_t next_;
  std::uint64_t missed_ = 0;
  std::vector<Lane> lanes_;
};

} // namespace rondo::observe
