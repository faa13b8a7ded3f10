// What the 128 bytes of a UniqueId hold.
#pragma once

#include "base/connection.h"
#include "rondo/rendezvous.h"

namespace rondo::bootstrap {

struct IdContent {
  std::uint64_t job = 0;
  base::SocketAddress hub;
  base::Secret secret;

  UniqueId encode() const;
  /// Throws Error(invalid_argument) for bytes that encode() did not make, or that were damaged.
  static IdContent decode(const UniqueId& id);
};

} // namespace rondo::bootstrap
