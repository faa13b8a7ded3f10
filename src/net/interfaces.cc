// Chooses the address of this machine that other ranks should use.
#include "net/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>

#include "base/parse.h"
#include "net/native_address.h"
#include "rondo/error.h"

namespace rondo::net {
namespace {

using Family = SocketAddress::Family;

/// "eth,ib", "^docker", "=eth0", "^=eth0"
struct InterfaceFilter {
  bool exclude = false, exact = false;
  std::vector<std::string> names;

  static InterfaceFilter parse(std::string_view text) {
    InterfaceFilter filter;
    text = base::trim(text);
    const bool given = !text.empty();
    if (text.starts_with('^')) {
      filter.exclude = true;
      text.remove_prefix(1);
    }
    if (text.starts_with('=')) {
      filter.exact = true;
      text.remove_prefix(1);
    }
    filter.names = base::parseList(text, "RONDO_SOCKET_IFNAME");
    if (given && filter.names.empty()) {
      throw Error(ErrorCode::invalid_argument,
                  "RONDO_SOCKET_IFNAME: no interface name after '^' or '='");
    }
    return filter;
  }

  bool fits(std::string_view name, const std::string& wanted) const {
    return exact ? name == wanted : name.starts_with(wanted);
  }
  bool allows(std::string_view name) const {
    if (names.empty()) return true;
    const bool listed =
        std::ranges::any_of(names, [&](const std::string& wanted) { return fits(name, wanted); });
    return listed != exclude;
  }
};

std::optional<Family> parseFamily(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "AF_INET") return Family::inet;
  if (text == "AF_INET6") return Family::inet6;
  throw Error(ErrorCode::invalid_argument,
              "unknown socket family " + base::quoted(text) + "; valid: AF_INET, AF_INET6");
}

bool linkLocal(const SocketAddress& address) {
  if (address.family == Family::inet) {
    return address.ip[0] == std::byte{169} && address.ip[1] == std::byte{254};
  }
  return address.ip[0] == std::byte{0xfe} && (address.ip[1] & std::byte{0xc0}) == std::byte{0x80};
}

/// Bridges of container systems, whose networks other machines cannot reach.
bool containerBridge(std::string_view name) {
  return name.starts_with("docker") || name.starts_with("virbr") || name.starts_with("cni");
}

/// Smaller is better. Equal interfaces keep the system's order.
int badness(const Interface& candidate, const std::optional<SocketAddress>& root) {
  int points = 0;
  if (root && root->family != Family::unix_abstract && root->family != candidate.address.family) {
    points += 8;
  }
  if (candidate.address.loopback() != (root && root->loopback())) points += 4;
  if (containerBridge(candidate.name)) points += 2;
  if (linkLocal(candidate.address)) points += 1;
  return points;
}

/// The source address that the kernel chooses. Connecting a datagram socket sends nothing.
SocketAddress routeTo(SocketAddress root) {
  if (root.port == 0) root.port = 9; // any port will do
  const NativeAddress native = toNative(root);
  const auto fd = base::UniqueFd::of(
      [&] { return ::socket(native.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
  if (!fd || ::connect(fd.get(), native.get(), native.length) != 0) {
    const int error = errno;
    throw Error(ErrorCode::init_failed, "no route to " + root.text() + ": " + std::strerror(error));
  }
  SocketAddress local = localAddress(fd.get());
  local.port = 0;
  return local;
}

std::optional<SocketAddress> tryRouteTo(const SocketAddress& root) {
  try {
    return routeTo(root);
  } catch (const Error&) {
    return std::nullopt; // the filter may name an interface that needs no route
  }
}

bool sameHost(const SocketAddress& a, const SocketAddress& b) {
  return a.family == b.family && a.ip == b.ip;
}

std::string describe(const std::vector<Interface>& interfaces) {
  std::vector<std::string> words;
  for (const Interface& one : interfaces) {
    const std::string text = one.address.text();
    words.push_back(one.name + " (" + text.substr(0, text.rfind(':')) + ")");
  }
  return words.empty() ? "none" : base::join(words, ", ");
}

} // namespace

std::vector<Interface> listInterfaces() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) {
    throw Error(ErrorCode::system, std::string("getifaddrs: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, &::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* item = list.get(); item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0) continue;
    const int family = item->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    NativeAddress native;
    native.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&native.storage, item->ifa_addr, native.length);
    interfaces.push_back({item->ifa_name, fromNative(native)});
  }
  return interfaces;
}

SocketAddress seenByOthers(const SocketAddress& found, const std::string& host_port,
                           const std::string& interfaces) {
  return seenByOthers(found, host_port, interfaces, listInterfaces());
}

SocketAddress seenByOthers(const SocketAddress& found, const std::string& host_port,
                           const std::string& interfaces, const std::vector<Interface>& list) {
  if (!found.loopback() || found.family == Family::unix_abstract) return found;
  const std::string host = host_port.substr(0, host_port.rfind(':'));
  std::array<std::byte, 16> number{};
  if (host.starts_with('[') || ::inet_pton(AF_INET, host.c_str(), number.data()) == 1 ||
      host.find("localhost") != std::string::npos)
    return found;
  SocketAddress address = chooseAddress(
      {interfaces, found.family == Family::inet ? "AF_INET" : "AF_INET6", std::nullopt}, list);
  if (address.loopback()) return found;
  address.port = found.port;
  return address;
}

SocketAddress seenFromHere(const SocketAddress& told) {
  const bool scoped = told.family == Family::inet6 && linkLocal(told);
  return scoped ? seenFromHere(told, listInterfaces()) : told;
}

SocketAddress seenFromHere(const SocketAddress& told, const std::vector<Interface>& list) {
  SocketAddress here = told;
  std::set<std::uint32_t> scopes;
  for (const auto& [name, own] : list) {
    if (own.family != Family::inet6 || !linkLocal(own)) continue;
    scopes.insert(own.scope);
    if (own.ip == told.ip) here.scope = own.scope;
  }
  if (scopes.size() == 1) here.scope = *scopes.begin();
  return here;
}

std::vector<SocketAddress> railAddresses(const std::string& interfaces, const SocketAddress& first,
                                         const std::vector<Interface>& list) {
  const InterfaceFilter filter = InterfaceFilter::parse(interfaces);
  std::vector<const Interface*> rails;
  for (const std::string& wanted : filter.names) {
    for (const Interface& one : list) {
      if (filter.exclude || !filter.fits(one.name, wanted) || one.address.family != first.family)
        continue;
      // Skips addresses that are valid only on their own machine.
      if (one.address.loopback() != first.loopback() || linkLocal(one.address)) continue;
      const auto known = std::ranges::find_if(
          rails, [&](const Interface* rail) { return rail->name == one.name; });
      if (known != rails.end()) {
        if (sameHost(one.address, first)) *known = &one;
      } else if (rails.size() < kMostRails) {
        rails.push_back(&one);
      }
    }
  }
  std::vector<SocketAddress> addresses;
  for (const Interface* rail : rails) addresses.push_back(rail->address);
  const bool among = std::ranges::any_of(
      addresses, [&](const SocketAddress& address) { return sameHost(address, first); });
  if (!among) addresses.assign(1, first);
  return addresses;
}

SocketAddress chooseAddress(const AddressWish& wish) {
  return chooseAddress(wish, listInterfaces());
}

SocketAddress chooseAddress(const AddressWish& wish, const std::vector<Interface>& interfaces) {
  const InterfaceFilter filter = InterfaceFilter::parse(wish.interfaces);
  const std::optional<Family> family = parseFamily(wish.family);
  const bool routed = wish.root && wish.root->family != Family::unix_abstract &&
                      (!family || *family == wish.root->family);
  if (routed && filter.names.empty()) return routeTo(*wish.root);
  if (routed) {
    // Among several allowed interfaces, prefer the one that the kernel would use.
    const std::optional<SocketAddress> route = tryRouteTo(*wish.root);
    for (const Interface& candidate : interfaces) {
      if (route && filter.allows(candidate.name) && sameHost(candidate.address, *route)) {
        return candidate.address;
      }
    }
  }

  const Interface* best = nullptr;
  for (const Interface& candidate : interfaces) {
    if (!filter.allows(candidate.name)) continue;
    if (family && *family != candidate.address.family) continue;
    if (best == nullptr || badness(candidate, wish.root) < badness(*best, wish.root)) {
      best = &candidate;
    }
  }
  if (best == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "no interface that is up has an address as wanted by RONDO_SOCKET_IFNAME " +
                    base::quoted(wish.interfaces) + " and RONDO_SOCKET_FAMILY " +
                    base::quoted(wish.family) + "; there are: " + describe(interfaces));
  }
  return best->address;
}

} // namespace rondo::net
