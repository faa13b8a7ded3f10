// Chooses the address of this machine that other ranks should use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/connection.h"

namespace rondo::net {

struct Interface {
  std::string name;
  SocketAddress address; ///< port 0
};

/// All IPv4 and IPv6 addresses of all interfaces that are up. Throws Error(system).
std::vector<Interface> listInterfaces();

struct AddressWish {
  std::string interfaces;            ///< Options::socket_interface
  std::string family;                ///< Options::socket_family
  std::optional<SocketAddress> root; ///< must reach the address; unset: no particular host
};

/// The address (with port 0) from which this machine routes to the root, if names and family allow
/// it; a loopback address if the root is one. Otherwise the first allowed address; loopback
/// addresses come last. Throws Error(invalid_argument), which lists the available interfaces, if
/// none is allowed, and Error(init_failed) if there is no route to the root.
SocketAddress chooseAddress(const AddressWish& wish);

/// As above, from a given list. Pure, except for the route to the root.
SocketAddress chooseAddress(const AddressWish& wish, const std::vector<Interface>& interfaces);

inline constexpr std::size_t kMostRails = 8;

/// The addresses of this machine over which a job moves its data at the same time. One for each
/// interface of `list` that `interfaces` (as in AddressWish) names, in the order of the names, at
/// most kMostRails, of the family of `first`: `first` for its own interface, and the first address
/// of each other one. Returns only `first` if no interface is named, names are only excluded, or
/// none of the named ones has `first`. Ports are 0.
std::vector<SocketAddress> railAddresses(const std::string& interfaces, const SocketAddress& first,
                                         const std::vector<Interface>& list);

/// The rendezvous address for ranks of other machines, when `host_port` was resolved to `found`.
/// Many hosts files map a machine's own name to a loopback address (Debian: 127.0.1.1), which other
/// machines cannot reach. In that case returns this machine's first other address that `interfaces`
/// (as in AddressWish) allows, if there is one. Numeric addresses and "localhost" are not changed.
SocketAddress seenByOthers(const SocketAddress& found, const std::string& host_port,
                           const std::string& interfaces);
SocketAddress seenByOthers(const SocketAddress& found, const std::string& host_port,
                           const std::string& interfaces, const std::vector<Interface>& list);

/// `told`, as this machine must dial it. The scope of a link-local IPv6 address is the number of an
/// interface of the machine that told it; here the interface may have another number. It is known
/// if only one interface has such addresses, or if the address is this machine's own; otherwise
/// `told` is returned as it is.
SocketAddress seenFromHere(const SocketAddress& told);
SocketAddress seenFromHere(const SocketAddress& told, const std::vector<Interface>& list);

} // namespace rondo::net
