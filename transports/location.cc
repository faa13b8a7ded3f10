// Where a rank's Unix socket is.
#include "transports/location.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <span>

namespace rondo::transport {

namespace {
constexpr std::uint8_t kVersion = 1;
}

std::optional<Place> Place::here() {
  Place place;
  std::ifstream boot("/proc/sys/kernel/random/boot_id", std::ios::binary);
  struct stat network {};
  if (!boot.read(reinterpret_cast<char*>(place.boot.data()), place.boot.size()) ||
      ::stat("/proc/self/ns/net", &network) != 0)
    return std::nullopt;
  place.network = network.st_ino;
  place.user = ::geteuid();
  return place;
}

void Location::write(base::Writer& out) const {
  out.u8(kVersion);
  out.raw(place.boot);
  out.u64(place.network);
  out.u32(place.user);
  out.raw(listener.encode());
}

Location Location::read(base::Reader& in) {
  if (in.u8() != kVersion) in.fail("has an unknown version");
  Location out;
  in.raw(std::span<std::byte>(out.place.boot));
  out.place.network = in.u64();
  out.place.user = in.u32();
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
