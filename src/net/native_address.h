// SocketAddress and the operating system's form of it.
#pragma once

#include <sys/socket.h>

#include "net/connection.h"

namespace rondo::net {

struct NativeAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// Throws Error(invalid_argument) for a Unix name that is too long.
NativeAddress toNative(const SocketAddress& address);
/// Throws Error(transport) for a family that is none of SocketAddress's.
SocketAddress fromNative(const NativeAddress& native);

/// A non-blocking, close-on-exec stream socket of the address's family. Throws Error(system).
base::UniqueFd makeStreamSocket(const SocketAddress& address);
/// Where the socket is bound. Throws Error(system).
SocketAddress localAddress(int fd);
/// No Nagle; nothing for a Unix socket.
void setNoDelay(int fd, const SocketAddress& address);
/// Whether a socket at the other end, on this machine, belongs to this process's user, as the
/// kernel says. A connection over TCP must be accepted on both sides. False where the kernel does
/// not tell.
bool sameUser(int fd);

} // namespace rondo::net
