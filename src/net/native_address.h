// Converts between SocketAddress and the operating system's form.
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
/// Throws Error(transport) for an unsupported family.
SocketAddress fromNative(const NativeAddress& native);

/// A non-blocking, close-on-exec stream socket of the address's family. Throws Error(system).
base::UniqueFd makeStreamSocket(const SocketAddress& address);
/// The address that the socket is bound to. Throws Error(system).
SocketAddress localAddress(int fd);
/// Disables Nagle's algorithm; does nothing for a Unix socket.
void setNoDelay(int fd, const SocketAddress& address);
/// Whether the socket at the other end of a connection within this machine belongs to this
/// process's user, according to the kernel. A TCP connection must have been accepted. False if the
/// kernel does not say.
bool sameUser(int fd);

} // namespace rondo::net
