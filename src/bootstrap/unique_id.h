// The content of the 128 bytes of a UniqueId.
#pragma once

#include "net/connection.h"
#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

struct IdContent {
  std::uint64_t job = 0;
  net::SocketAddress hub;
  net::Secret secret;

  UniqueId encode() const;
  /// Throws Error(invalid_argument) for bytes that encode() did not make, or that were damaged.
  static IdContent decode(const UniqueId& id);
};

} // namespace rondo::bootstrap
