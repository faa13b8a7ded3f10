// Which address of this machine others should use.
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

/// Every IPv4 and IPv6 address of every interface that is up. Throws Error(system).
std::vector<Interface> listInterfaces();

struct AddressWish {
  std::string interfaces;            ///< Options::socket_interface
  std::string family;                ///< Options::socket_family
  std::optional<SocketAddress> root; ///< who must reach the address; unset: nobody in particular
};

/// The address (with port 0) of this machine that routes to the root, if the wish's names and
/// family allow it; it is a loopback address when the root is one. Otherwise the first allowed one,
/// those that other machines may reach before loopback.
/// Throws Error(invalid_argument) that lists the interfaces there are when none fits, and
/// Error(init_failed) when there is no route to the root.
SocketAddress chooseAddress(const AddressWish& wish);

/// As above, from a given list; a pure function but for the route to the root.
SocketAddress chooseAddress(const AddressWish& wish, const std::vector<Interface>& interfaces);

inline constexpr std::size_t kMostRails = 8;

/// The addresses of this machine that a job moves its data by, all at the same time: one for each
/// interface of `list` that `interfaces` (as in AddressWish) names, in the order in which it names
/// them, at most kMostRails, of the family of `first`; that one alone where nothing is named, names
/// are only excluded, or it is not among them. Ports 0.
std::vector<SocketAddress> railAddresses(const std::string& interfaces, const SocketAddress& first,
                                         const std::vector<Interface>& list);

/// Where ranks of other machines meet those of this one, when `host_port` was resolved to `found`.
/// Many hosts files give a machine's own name a loopback address (Debian: 127.0.1.1), where nobody
/// else comes: in its place this machine's first other address that `interfaces` (as in
/// AddressWish) allows, if there is one. Numbers and "localhost" mean what they say.
SocketAddress seenByOthers(const SocketAddress& found, const std::string& host_port,
                           const std::string& interfaces);
SocketAddress seenByOthers(const SocketAddress& found, const std::string& host_port,
                           const std::string& interfaces, const std::vector<Interface>& list);

} // namespace rondo::net
