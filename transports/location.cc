// Encodes and decodes the location of a rank's Unix socket.
#include "transports/location.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <sstream>

#include "base/read_file.h"

namespace rondo::transport {

namespace {
/// Changes with the bytes written below, and with the layout of SlotRing.
constexpr std::uint8_t kVersion = 2;

/// The id of this user outside of the process's user namespace; nothing if it has none there. (A
/// kernel without user namespaces has no such file.)
std::optional<std::uint32_t> outsideId(std::uint32_t user) {
  const auto map = base::readFile("/proc/self/uid_map");
  if (!map) return user;
  std::istringstream lines(*map);
  for (std::uint32_t inside = 0, outside = 0, count = 0; lines >> inside >> outside >> count;)
    if (user >= inside && user - inside < count) return outside + (user - inside);
  return std::nullopt;
}

/// Equal numbers if the ids inside and outside of the user namespace are equal; otherwise shm would
/// refuse the connection. In nested namespaces, users of the host that have equal ids in the parent
/// namespaces still have equal numbers.
std::uint32_t numberOf(std::uint32_t user) {
  constexpr std::uint32_t kSpread = 0x9e3779b9; // odd, so different products for different ids
  struct stat own {};
  ::stat("/proc/self/ns/user", &own);
  const auto outside = outsideId(user).value_or(static_cast<std::uint32_t>(own.st_ino));
  return user + (outside - user) * kSpread;
}

} // namespace

std::optional<Scope> Scope::here() {
  Scope scope;
  const std::string boot = base::firstLine("/proc/sys/kernel/random/boot_id");
  struct stat network {};
  if (boot.size() < scope.boot.size() || ::stat("/proc/self/ns/net", &network) != 0)
    return std::nullopt;
  std::memcpy(scope.boot.data(), boot.data(), scope.boot.size());
  scope.network = network.st_ino;
  scope.user = numberOf(::geteuid());
  return scope;
}

void Location::write(base::Writer& out) const {
  out.u8(kVersion);
  out.raw(scope.boot);
  out.u64(scope.network);
  out.u32(scope.user);
  out.raw(listener.encode());
}

Location Location::read(base::Reader& in) {
  if (const int version = in.u8(); version != kVersion)
    in.fail("is of version " + std::to_string(version) + ", wanted " + std::to_string(kVersion));
  Location out;
  in.raw(std::span<std::byte>(out.scope.boot));
  out.scope.network = in.u64();
  out.scope.user = in.u32();
  out.listener = net::SocketAddress::decode(in.raw(in.left()));
  if (out.listener.family != net::SocketAddress::Family::unix_abstract || out.listener.name.empty())
    in.fail("names no Unix socket: " + out.listener.text());
  return out;
}

Address Location::encode() const {
  base::Writer out;
  write(out);
  return out.take();
}

Location Location::decode(const Address& address, const std::string& what) {
  base::Reader in(address, what);
  return read(in);
}

} // namespace rondo::transport
