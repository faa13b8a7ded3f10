// The content of the 128 bytes of a UniqueId.
#pragma once

#include <array>
#include <cstddef>

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

using IdNonce = std::array<std::byte, 16>;

/// Encrypts an id with the secret of another job, for sending it there without TLS; a second call
/// with the same arguments decrypts it. A nonce may be used for one id only.
UniqueId masked(UniqueId id, const net::Secret& secret, const IdNonce& nonce);

} // namespace rondo::bootstrap
