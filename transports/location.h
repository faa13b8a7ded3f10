// Where a rank's Unix socket is, for transports between processes of one machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/codec.h"
#include "net/connection.h"
#include "transports/transport.h"

namespace rondo::transport {

/// Processes for which all of this is equal can meet over an abstract Unix socket.
struct Scope {
  std::array<std::byte, 36> boot{}; ///< the kernel's boot id: which machine, since when
  std::uint64_t network = 0;        ///< inode of the network namespace: abstract names live in it
  std::uint32_t user = 0;

  bool operator==(const Scope&) const = default;

  /// nullopt where the system does not tell.
  static std::optional<Scope> here();
};

/// An address that holds nothing else, or ends with it.
struct Location {
  Scope scope;
  net::SocketAddress listener;

  Address encode() const;
  /// Throws Error(transport) that begins with `what`, for anything that encode() does not make.
  static Location decode(const Address& address, const std::string& what);

  void write(base::Writer& out) const;
  static Location read(base::Reader& in);
};

} // namespace rondo::transport
