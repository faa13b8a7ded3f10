// Resolves host names to addresses, with a time limit.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "net/connection.h"
#include "rondo/error.h"

namespace rondo::net {

/// An Error(invalid_argument): no name server knows the name, or none answers. Later it may be
/// known.
class UnknownHost : public Error {
 public:
  explicit UnknownHost(const std::string& what) : Error(ErrorCode::invalid_argument, what) {}
};

/// The IPv4 and IPv6 addresses of a host, port 0, in the system's order. `family`: AF_INET,
/// AF_INET6, or AF_UNSPEC for both. A numeric address is parsed at once. A name is resolved on a
/// separate thread, which is abandoned if the resolver does not answer within `limit`. Throws
/// UnknownHost, other Error(invalid_argument), and Error(timeout); all name the host.
std::vector<SocketAddress> resolve(const std::string& host, int family,
                                   std::chrono::milliseconds limit);

} // namespace rondo::net
