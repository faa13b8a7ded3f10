// Encodes and decodes the location of a rank's Unix socket.
#include "transports/location.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>

#include "base/read_file.h"

namespace rondo::transport {

namespace {
/// Changes with the bytes written below, and with the layout of SlotRing.
constexpr std::uint8_t kVersion = 2;
} // namespace

std::optional<Scope> Scope::here() {
  Scope scope;
  const std::string boot = base::firstLine("/proc/sys/kernel/random/boot_id");
  struct stat network {};
  if (boot.size() < scope.boot.size() || ::stat("/proc/self/ns/net", &network) != 0)
    return std::nullopt;
  std::memcpy(scope.boot.data(), boot.data(), scope.boot.size());
  scope.network = network.st_ino;
  scope.user = ::geteuid();
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
  if (in.u8() != kVersion) in.fail("has an unknown version");
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
