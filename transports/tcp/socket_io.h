// Single non-blocking system calls on a socket, and the memory that they use.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "base/clock.h"
#include "transports/tcp/ends.h"

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

std::size_t sendPlain(int fd, Pieces& pieces, const SocketSettings& settings);
std::size_t receivePlain(int fd, Pieces& pieces, const SocketSettings& settings);
std::size_t sendTls(net::Tls& tls, Pieces& pieces, const SocketSettings& settings);
std::size_t receiveTls(net::Tls& tls, Pieces& pieces, const SocketSettings& settings);

/// Returns the bytes that the kernel has taken; 0 if it has no room now. After a short count the
/// next call must go on with the same bytes: with TLS they may be encrypted already. Throws
/// Error(peer_dead | unresponsive) with the peer as culprit, or Error(system); with TLS also
/// Error(transport).
inline std::size_t sendSome(const net::Socket& socket, Pieces& pieces,
                            const SocketSettings& settings) {
  if (net::Tls* const tls = socket.tls()) [[unlikely]]
    return sendTls(*tls, pieces, settings);
  return sendPlain(socket.get(), pieces, settings);
}
/// For a socket that has had no room for a while; call it at every check since then. Returns since
/// when the peer's system has not answered. Throws Error(unresponsive) with the peer as culprit if
/// that is longer ago than SocketSettings::silence. A peer that does not read, but whose system
/// answers, is only slow, which is no error.
base::Clock::time_point checkAnswered(int fd, base::Clock::time_point since,
                                      const SocketSettings& settings);
/// Returns the bytes received; 0 if none have arrived. Throws as sendSome(). An orderly end of the
/// connection is also Error(peer_dead), because the caller expects more data. With TLS, bytes that
/// another than the peer has sent or changed are Error(transport).
inline std::size_t receiveSome(const net::Socket& socket, Pieces& pieces,
                               const SocketSettings& settings) {
  if (net::Tls* const tls = socket.tls()) [[unlikely]]
    return receiveTls(*tls, pieces, settings);
  return receivePlain(socket.get(), pieces, settings);
}
/// Bytes that were passed to the socket and that the peer's system has not acknowledged. With TLS
/// that includes its own bytes, so it is an upper limit of the caller's.
std::size_t unacknowledged(int fd);

/// Throws Error(transport) with the peer as culprit if a body is larger than a slot.
void requireSlot(std::uint64_t bytes, const SocketSettings& settings);

} // namespace rondo::transport::tcp
