// Both sides of connections for tests: a listener that keeps accepted connections, and raw sockets
// that send any bytes.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "net/connection.h"
#include "net/event_loop.h"
#include "net/handshake.h"
#include "net/native_address.h"
#include "support/descriptors.h"
#include "support/test.h"

namespace rondo::test {

using namespace net;
using base::Clock, base::Deadline, base::UniqueFd;

using namespace std::chrono_literals;

/// Waits until the condition holds, for at most twenty seconds.
template <class Condition>
bool eventually(Condition condition) {
  const Deadline deadline(20s);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Fails the test if descriptors are left open at the end of the scope.
class NoLeak {
 public:
  NoLeak() : before_(openDescriptors()) {}
  ~NoLeak() {
    const bool balanced = eventually([this] { return openDescriptors() == before_; });
    CHECK(balanced);
  }

 private:
  // Held, so that both counts include the loop's own descriptors.
  std::shared_ptr<EventLoop> loop_ = EventLoop::get();
  std::size_t before_;
};

inline SocketAddress unixAddress(const std::string& name = "") {
  SocketAddress address;
  address.family = SocketAddress::Family::unix_abstract;
  address.name = name;
  return address;
}

/// Loopback addresses of every family; the system chooses the port.
inline std::vector<SocketAddress> families() {
  return {SocketAddress::parse("127.0.0.1:0", ""), SocketAddress::parse("[::1]:0", ""),
          unixAddress()};
}

constexpr std::uint64_t kJob = 0x1122334455667788;

/// An acceptor that keeps its connections.
class Host {
 public:
  explicit Host(const SocketAddress& address, Secret shared = Secret::random(),
                std::chrono::milliseconds limit = 3000ms, int half_open = 128)
      : secret(shared),
        acceptor({address, shared, kJob, half_open, limit}, [this](Accepted connection) {
          std::lock_guard lock(mutex_);
          connections_.push_back(std::move(connection));
        }) {}

  Dial::Settings dial(Clock::duration limit = 20s) const {
    Dial::Settings settings;
    settings.address = acceptor.address();
    settings.secret = secret;
    settings.hello.job = kJob;
    settings.deadline = Deadline(limit).at();
    return settings;
  }
  std::size_t count() {
    std::lock_guard lock(mutex_);
    return connections_.size();
  }
  /// The next connection; one must be in progress.
  Accepted take() {
    const bool there = eventually([this] { return count() > 0; });
    REQUIRE(there);
    std::lock_guard lock(mutex_);
    Accepted first = std::move(connections_.front());
    connections_.erase(connections_.begin());
    return first;
  }
  bool rejects(std::uint64_t number) {
    return eventually([&] { return acceptor.rejected() >= number; }) &&
           acceptor.rejected() == number;
  }
  /// Checks that an honest peer is accepted.
  void checkWorks() {
    Dial honest(dial());
    const UniqueFd fd = honest.wait().plain();
    const Accepted other = take();
    CHECK(other.session_key == honest.sessionKey());
  }

  const Secret secret;

 private:
  std::mutex mutex_;
  std::vector<Accepted> connections_;

 public:
  Acceptor acceptor; // last: its callback uses the other members
};

/// A blocking socket that sends what the test gives it.
class RawPeer {
 public:
  explicit RawPeer(UniqueFd connected) : fd(std::move(connected)) {}
  explicit RawPeer(const SocketAddress& address) : RawPeer(unconnected(address)) {
    connect(address);
  }
  static UniqueFd unconnected(const SocketAddress& address) {
    return UniqueFd(::socket(toNative(address).storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  void connect(const SocketAddress& address) {
    const NativeAddress native = toNative(address);
    REQUIRE(::connect(fd.get(), native.get(), native.length) == 0);
  }

  /// Number of bytes that the other side accepted; it may have closed.
  std::size_t send(std::span<const std::byte> bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    return sent;
  }
  void sendWith(std::span<const std::byte> bytes, const std::vector<int>& descriptors) {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    std::vector<char> control(CMSG_SPACE(sizeof(int) * descriptors.size()));
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* item = CMSG_FIRSTHDR(&header);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
      std::memcpy(CMSG_DATA(item), descriptors.data(), sizeof(int) * descriptors.size());
    }
    ::sendmsg(fd.get(), &header, MSG_NOSIGNAL);
  }
  /// Up to `size` bytes; fewer if the other side closed, or after twenty seconds.
  std::vector<std::byte> receive(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t have = 0;
    while (have < size) {
      pollfd wait{fd.get(), POLLIN, 0};
      if (::poll(&wait, 1, 20'000) <= 0) break;
      const ssize_t n = ::recv(fd.get(), bytes.data() + have, size - have, 0);
      if (n <= 0) break;
      have += static_cast<std::size_t>(n);
    }
    bytes.resize(have);
    return bytes;
  }
  /// Whether the other side closed without another byte.
  bool closed() {
    pollfd wait{fd.get(), POLLIN, 0};
    std::byte byte{};
    return ::poll(&wait, 1, 20'000) == 1 && ::recv(fd.get(), &byte, 1, 0) <= 0;
  }

  UniqueFd fd;
};

/// A valid hello of this job.
inline handshake::HelloMessage helloMessage(std::uint8_t passed = 0) {
  handshake::HelloMessage message;
  message.hello.job = kJob;
  message.passed = passed;
  for (std::size_t i = 0; i < message.nonce.size(); ++i) {
    message.nonce[i] = static_cast<std::byte>(i * 7 + 1);
  }
  return message;
}

} // namespace rondo::test
