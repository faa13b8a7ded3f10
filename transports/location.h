// The location of a rank's Unix socket, for transports between processes of one machine.
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

/// Processes for which all of these are equal can connect over an abstract Unix socket.
struct Scope {
  /// the kernel's boot id, which identifies a machine and its boot
  std::array<std::byte, 36> boot{};
  /// Inode of the network namespace, which contains the abstract names.
  std::uint64_t network = 0;
  /// The user's id, combined with its id outside of the process's user namespace.
  std::uint32_t user = 0;

  bool operator==(const Scope&) const = default;

  /// The scope of this process; nullopt if the system does not provide it.
  static std::optional<Scope> here();
};

/// The whole of an address, or the end of one.
struct Location {
  Scope scope;
  net::SocketAddress listener;

  Address encode() const;
  /// Throws Error(transport) that begins with `what` for anything that encode() does not produce.
  static Location decode(const Address& address, const std::string& what);

  void write(base::Writer& out) const;
  static Location read(base::Reader& in);
};

} // namespace rondo::transport
