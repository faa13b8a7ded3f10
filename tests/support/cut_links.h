// Makes connections lose all data, as if their cables were cut.
#pragma once

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "support/descriptors.h"

namespace rondo::test {

inline bool connectedTcp(int fd) {
  int protocol = 0;
  socklen_t length = sizeof protocol;
  sockaddr_storage peer{};
  socklen_t peer_length = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
         protocol == IPPROTO_TCP &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0;
}

/// From now on this process's TCP connections, except those in `spared`, receive nothing: a filter
/// drops segments before they are acknowledged. Returns the number of affected sockets.
inline int cutLinks(const std::vector<int>& spared = {}) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop};
  int cut = 0;
  for (const int fd : openDescriptorNumbers())
    if (std::ranges::find(spared, fd) == spared.end() && connectedTcp(fd) &&
        ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0)
      ++cut;
  return cut;
}

} // namespace rondo::test
