// A TCP port of loopback on which nothing listens.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

#include "base/unique_fd.h"

namespace rondo::test {

inline int freePort() {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd.get(), any, length) != 0 || ::getsockname(fd.get(), any, &length) != 0)
    std::abort();
  return ntohs(address.sin_port);
}

} // namespace rondo::test
