// Names of hosts to addresses, without waiting for ever.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "net/connection.h"

namespace rondo::net {

/// The IPv4 and IPv6 addresses of a host, port 0, in the system's order. `family`: AF_INET,
/// AF_INET6, or AF_UNSPEC for both. A number is read here; a name is asked for on a thread of its
/// own, which is left behind when the resolver does not answer within `limit`.
/// Throws Error(invalid_argument) for a host that is not found, Error(timeout); both name it.
std::vector<SocketAddress> resolve(const std::string& host, int family,
                                   std::chrono::milliseconds limit);

} // namespace rondo::net
