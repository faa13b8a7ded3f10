// A connected stream socket, plain or with TLS.
#pragma once

#include <memory>
#include <utility>

#include "base/fork.h"
#include "base/unique_fd.h"
#include "net/tls.h"

namespace rondo::net {

/// Owns the descriptor and, with TLS, the state of the encryption. One thread at a time.
///
/// With TLS only tls() sends on the descriptor and interprets received bytes. The end of a
/// connection is that of its socket: TLS sends no message of its own about it.
class Socket {
 public:
  Socket() = default;
  Socket(base::UniqueFd fd) : fd_(std::move(fd)) {} // implicit: a plain socket
  Socket(base::UniqueFd fd, std::unique_ptr<Tls> tls) : fd_(std::move(fd)), tls_(std::move(tls)) {}
  Socket(Socket&&) noexcept = default;
  Socket& operator=(Socket&& other) noexcept {
    reset();
    fd_ = std::move(other.fd_);
    tls_ = std::move(other.tls_);
    return *this;
  }
  ~Socket() { reset(); }

  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  /// Null: a plain socket, whose descriptor is used directly.
  Tls* tls() const { return tls_.get(); }

  void reset() {
    // A lock of libssl that another thread held at the fork would stay locked in the child.
    if (tls_ && maker_.elsewhere()) static_cast<void>(tls_.release());
    tls_.reset();
    fd_.reset();
  }
  /// Gives the descriptor of a plain socket away. With TLS the socket stays, and the result is
  /// empty, so that no byte is ever sent in the clear by mistake.
  base::UniqueFd plain() && { return tls_ ? base::UniqueFd() : std::move(fd_); }

 private:
  base::UniqueFd fd_;
  std::unique_ptr<Tls> tls_;
  base::Maker maker_;
};

} // namespace rondo::net
