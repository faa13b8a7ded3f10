// A proxy between a member and its hub.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "net/connection.h"
#include "net/native_address.h"
#include "rondo/error.h"

namespace rondo::test {

/// Forwards one connection until it is told to drop the bytes of one side, or to reset both.
class Proxy {
 public:
  explicit Proxy(const net::SocketAddress& hub) : hub_(hub) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    net::SocketAddress own = hub;
    own.port = 0;
    const net::NativeAddress wanted = net::toNative(own);
    sockaddr_in bound{};
    socklen_t length = sizeof bound;
    if (::bind(listener_.get(), wanted.get(), wanted.length) != 0 ||
        ::listen(listener_.get(), 1) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
      throw Error(ErrorCode::system, "the proxy cannot listen");
    address_ = hub;
    address_.port = ntohs(bound.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Proxy() { stop(); }

  const net::SocketAddress& address() const { return address_; }
  std::atomic<bool> loses_hub{false}, loses_member{false}, resets{false};
  /// What the member has sent. Read it when this object has been stopped.
  std::vector<char> recorded;
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    pollfd waiting{listener_.get(), POLLIN, 0};
    while (::poll(&waiting, 1, 10) == 0)
      if (stop_) return;
    const base::UniqueFd member(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const base::UniqueFd hub(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const net::NativeAddress native = net::toNative(hub_);
    if (::connect(hub.get(), native.get(), native.length) != 0) return;
    std::array<char, 65536> bytes;
    while (!stop_) {
      if (resets) {
        const linger at_once{1, 0}; // close() then sends RST
        for (const int fd : {member.get(), hub.get()})
          ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        return;
      }
      std::array<pollfd, 2> ends{pollfd{member.get(), POLLIN, 0}, pollfd{hub.get(), POLLIN, 0}};
      if (::poll(ends.data(), ends.size(), 10) <= 0) continue;
      for (const int from : {0, 1}) {
        if (ends[static_cast<std::size_t>(from)].revents == 0) continue;
        const int in = ends[static_cast<std::size_t>(from)].fd;
        const ssize_t count = ::recv(in, bytes.data(), bytes.size(), 0);
        if (count <= 0) return;
        if (from == 0) recorded.insert(recorded.end(), bytes.begin(), bytes.begin() + count);
        if (from == 0 ? loses_member : loses_hub) continue;
        const int out = ends[static_cast<std::size_t>(1 - from)].fd;
        if (::send(out, bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) != count)
          return;
      }
    }
  }

  const net::SocketAddress hub_;
  net::SocketAddress address_;
  base::UniqueFd listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace rondo::test
