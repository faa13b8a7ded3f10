// One non-blocking system call on a socket, and the memory that it works on.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "base/clock.h"
#include "transports/tcp/carrier.h"

namespace rondo::transport::tcp {

/// Calls of progress() without progress from one look at the connection to the next: a look costs
/// about as much as a try to send, and sleepers try every few hundred microseconds.
inline constexpr std::uint64_t kLooksPerCheck = 64;

/// Pieces of memory for one call, on the stack.
class Pieces {
 public:
  bool full() const { return count_ == pieces_.size(); }
  bool empty() const { return count_ == 0; }
  std::size_t bytes() const { return bytes_; }
  std::span<iovec> list() { return {pieces_.data(), count_}; }

  /// False: no room for it.
  bool add(const void* data, std::size_t size) {
    if (size == 0) return true;
    if (count_ > 0) {
      iovec& last = pieces_[count_ - 1];
      if (static_cast<std::byte*>(last.iov_base) + last.iov_len == data) {
        last.iov_len += size;
        bytes_ += size;
        return true;
      }
    }
    if (full()) return false;
    pieces_[count_++] = {const_cast<void*>(data), size};
    bytes_ += size;
    return true;
  }

  /// Bytes [range.begin, range.end) of a body. False: not all of them had room.
  template <class Bytes>
  bool add(std::span<const Bytes> body, Range range) {
    for (std::size_t at = 0; const Bytes& piece : body) {
      if (at >= range.end) break;
      const std::size_t from = std::max(at, range.begin), to = std::min(at + piece.size, range.end);
      if (from < to && !add(static_cast<const std::byte*>(piece.data) + (from - at), to - from))
        return false;
      at += piece.size;
    }
    return true;
  }

 private:
  std::array<iovec, kPiecesPerCall> pieces_; // deliberately not initialized: only count_ are read
  std::size_t count_ = 0, bytes_ = 0;
};

/// Bytes taken over by the kernel; 0 when it has no room now. Throws Error(peer_dead | unresponsive
/// | system) with the peer as culprit.
std::size_t sendSome(int fd, Pieces& pieces, const SocketSettings& settings);
/// For a socket that has had no room for a while, at every look since then: since when it stands on
/// data without any answer of the peer's system. Throws Error(unresponsive) with the peer as
/// culprit when that is longer ago than SocketSettings::silence. A peer whose system answers and
/// that does not read is only slow, which is no error.
base::Clock::time_point checkAnswered(int fd, base::Clock::time_point since,
                                      const SocketSettings& settings);
/// Bytes that arrived; 0 when there are none now. Throws as sendSome(); an orderly end is
/// peer_dead: whoever calls wants more.
std::size_t receiveSome(int fd, Pieces& pieces, const SocketSettings& settings);
/// Of all that was handed over, bytes that the peer's system has not acknowledged.
std::size_t unacknowledged(int fd);

/// Throws Error(transport) with the peer as culprit for a body that no slot holds.
void requireSlot(std::uint64_t bytes, const SocketSettings& settings);

} // namespace rondo::transport::tcp
