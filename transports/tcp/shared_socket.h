// A socket that serves the channels of both directions between two ranks.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "net/socket.h"
#include "transports/tcp/ends.h"

namespace rondo::transport::tcp {

/// The kernel acknowledges each message that a program reads from a socket on which it sends
/// nothing, by a segment of its own. On a socket for both directions the next message in the other
/// direction carries the acknowledgement. 24 bytes over loopback, AMD Zen 3, us of processor time
/// to send and receive: 8.7 and 6.2.
///
/// The rank with the lower number dials, whichever direction is used first. poll() may be called by
/// any thread, the socket used by one at a time.
class SharedSocket {
 public:
  /// Returns the socket when it is connected; nothing before. Throws Error.
  using Connect = std::function<std::optional<net::Socket>()>;
  explicit SharedSocket(Connect connect) : connect_(std::move(connect)) {}

  /// Null while it is not connected. Throws the same error to the ends of both directions.
  SocketOfEnds poll() {
    const std::lock_guard lock(mutex_);
    if (socket_) return socket_;
    if (failed_) std::rethrow_exception(failed_);
    try {
      if (auto connected = connect_())
        socket_ = std::make_shared<const net::Socket>(std::move(*connected));
    } catch (...) {
      failed_ = std::current_exception();
      throw;
    }
    return socket_;
  }

 private:
  std::mutex mutex_;
  const Connect connect_;
  SocketOfEnds socket_;
  std::exception_ptr failed_;
};

} // namespace rondo::transport::tcp
