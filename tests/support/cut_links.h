// Makes connections lose all data, as if their cables were cut, or resets them.
#pragma once

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>
#include <vector>

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

/// This process's TCP connections, except those in `spared`.
inline std::vector<int> links(const std::vector<int>& spared = {}) {
  std::vector<int> found;
  for (const int fd : openDescriptorNumbers())
    if (std::ranges::find(spared, fd) == spared.end() && connectedTcp(fd)) found.push_back(fd);
  return found;
}

/// The same without the connections between two sockets of this process.
inline std::vector<int> linksToOthers() {
  // Rondo's connections of a process have addresses of one family, so ports tell them apart.
  const auto port = [](int fd, auto nameOf) {
    sockaddr_in6 name{};
    socklen_t length = sizeof name;
    nameOf(fd, reinterpret_cast<sockaddr*>(&name), &length);
    return name.sin6_port; // where sockaddr_in has it too
  };
  std::set<in_port_t> own;
  for (const int fd : links()) own.insert(port(fd, ::getsockname));
  std::vector<int> found = links();
  std::erase_if(found, [&](int fd) { return own.contains(port(fd, ::getpeername)); });
  return found;
}

/// From now on this end of a connection, or this listener, receives nothing: a filter drops
/// segments before they are acknowledged.
inline bool cutLink(int fd) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/// This process's TCP listeners.
inline std::vector<int> listeners() {
  std::vector<int> found;
  for (const int fd : openDescriptorNumbers()) {
    int listens = 0, protocol = 0;
    socklen_t length = sizeof(int);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0 &&
        ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
        protocol == IPPROTO_TCP)
      found.push_back(fd);
  }
  return found;
}

/// Ends what cutLink() began.
inline bool mendLink(int fd) {
  const int unused = 0;
  return ::setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) == 0;
}

/// Ends the connection: the peer receives RST.
inline bool resetLink(int fd) {
  const sockaddr nowhere{AF_UNSPEC, {}};
  return ::connect(fd, &nowhere, sizeof nowhere) == 0;
}

} // namespace rondo::test
