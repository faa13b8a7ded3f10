// Single non-blocking system calls on a socket, and the memory that they use.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "base/clock.h"
#include "transports/tcp/carrier.h"

namespace rondo::transport::tcp {

/// Calls of progress() without progress between two checks of the connection. A check costs about
/// as much as an attempt to send, and sleeping threads try every few hundred microseconds.
inline constexpr std::uint64_t kLooksPerCheck = 64;

/// The memory for one call, in pieces, on the stack.
class Pieces {
 public:
  bool full() const { return count_ == pieces_.size(); }
  bool empty() const { return count_ == 0; }
  std::size_t bytes() const { return bytes_; }
  std::span<iovec> list() { return {pieces_.data(), count_}; }

  /// False: there is no room for it.
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

  /// Adds bytes [range.begin, range.end) of a body. False: there was not room for all.
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

/// Returns the bytes that the kernel has taken; 0 if it has no room now. Throws Error(peer_dead |
/// unresponsive | system) with the peer as culprit.
std::size_t sendSome(int fd, Pieces& pieces, const SocketSettings& settings);
/// For a socket that has had no room for a while; call it at every check since then. Returns since
/// when the peer's system has not answered. Throws Error(unresponsive) with the peer as culprit if
/// that is longer ago than SocketSettings::silence. A peer that does not read, but whose system
/// answers, is only slow, which is no error.
base::Clock::time_point checkAnswered(int fd, base::Clock::time_point since,
                                      const SocketSettings& settings);
/// Returns the bytes received; 0 if none have arrived. Throws as sendSome(). An orderly end of the
/// connection is also Error(peer_dead), because the caller expects more data.
std::size_t receiveSome(int fd, Pieces& pieces, const SocketSettings& settings);
/// Bytes that were passed to the socket and that the peer's system has not acknowledged.
std::size_t unacknowledged(int fd);

/// Throws Error(transport) with the peer as culprit if a body is larger than a slot.
void requireSlot(std::uint64_t bytes, const SocketSettings& settings);

} // namespace rondo::transport::tcp
