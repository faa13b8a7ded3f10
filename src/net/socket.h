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
/// With TLS only tls() sends on the descriptor and interprets received bytes. The connection ends
/// when its socket ends: no close_notify is sent.
class Socket {
 public:
  Socket() = default;
  Socket(base::UniqueFd fd) : fd_(std::move(fd)) {}
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
    // A forked child leaks it: another thread may have held a lock of libssl at the fork.
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
