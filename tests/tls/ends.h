// Two ends of TLS over a pair of sockets, and bytes for them.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "net/hmac.h"
#include "net/socket.h"
#include "net/tls.h"
#include "support/test.h"

namespace rondo::test {

using namespace net;
using Bytes = std::vector<std::byte>;

inline Bytes randomBytes(std::size_t size) {
  static std::mt19937 random(5);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Divides the bytes into pieces of these sizes, over and over.
inline std::vector<iovec> cut(Bytes& bytes, const std::vector<std::size_t>& sizes, std::size_t from,
                              std::size_t most_pieces) {
  std::vector<iovec> list;
  for (std::size_t i = 0; from < bytes.size() && list.size() < most_pieces; ++i) {
    const std::size_t size = std::min(sizes[i % sizes.size()], bytes.size() - from);
    list.push_back({bytes.data() + from, size});
    from += size;
  }
  return list;
}

/// Two ends of TLS over sockets with small buffers. `key` is that of the side that accepts.
struct Ends {
  Ends(const Key& dialer_key, const Key& key, std::uint64_t records_per_key) {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    const int small = 20'000;
    for (const int fd : fds) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    dialer = Socket(base::UniqueFd(fds[0]), makeTls(fds[0], true, dialer_key, records_per_key));
    accepter = Socket(base::UniqueFd(fds[1]), makeTls(fds[1], false, key, records_per_key));
  }
  /// The results of both sides' handshakes, each of which ends.
  std::pair<Tls::Progress, Tls::Progress> shake() {
    const auto over = [](Tls::Progress step) {
      return step == Tls::Progress::done || step == Tls::Progress::failed;
    };
    Tls::Progress a = Tls::Progress::wants_to_read, b = a;
    for (int i = 0; i < 10 && !(over(a) && over(b)); ++i) {
      if (!over(a)) a = dialer.tls()->handshake();
      if (!over(b)) b = accepter.tls()->handshake();
    }
    return {a, b};
  }
  Socket dialer, accepter;
};

inline Key keyOf(int seed) {
  Key key{};
  key.fill(static_cast<std::byte>(seed));
  return key;
}

} // namespace rondo::test
