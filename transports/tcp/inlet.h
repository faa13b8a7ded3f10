// A receiving socket with a small read-ahead buffer.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "net/socket.h"
#include "transports/tcp/ends.h"
#include "transports/tcp/socket_io.h"

namespace rondo::transport::tcp {

/// The call that reads the end of a body also reads what follows it (the next header, small
/// messages). All functions throw as receiveSome().
class Inlet {
 public:
  explicit Inlet(net::Socket socket) : socket_(std::move(socket)) {}

  int socket() const { return socket_.get(); }
  std::size_t ahead() const { return end_ - begin_; }

  /// The next `size` bytes, which count as read; null if they have not all arrived. Makes at most
  /// one system call.
  const std::byte* next(std::size_t size, const SocketSettings& settings);

  /// Reads what has arrived into bytes [range.begin, range.end) of a body. Returns the number of
  /// bytes.
  std::size_t read(std::span<const MutableBytes> body, Range range, const SocketSettings& settings);

 private:
  std::size_t takeAhead(std::span<const MutableBytes> body, Range range);

  net::Socket socket_;
  std::size_t begin_ = 0, end_ = 0;
  std::array<std::byte, kReadAheadBytes> ahead_; // deliberately not initialized
};

} // namespace rondo::transport::tcp
