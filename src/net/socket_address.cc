// Converts socket addresses between text, wire and kernel forms.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/codec.h"
#include "base/errno_text.h"
#include "base/parse.h"
#include "net/connection.h"
#include "net/native_address.h"
#include "net/resolve.h"
#include "rondo/error.h"

namespace rondo::net {
namespace {

constexpr std::uint8_t kVersion = 1;
/// version, family, port, scope, length of the name
constexpr std::size_t kFixedBytes = 1 + 1 + 2 + 4 + 1;
constexpr std::size_t kMaxName = 64 - kFixedBytes;

std::size_t ipBytes(SocketAddress::Family family) {
  switch (family) {
    case SocketAddress::Family::inet: return 4;
    case SocketAddress::Family::inet6: return 16;
    case SocketAddress::Family::unix_abstract: return 0;
  }
  return 0;
}

/// An IPv4-mapped IPv6 address: ::ffff:a.b.c.d.
bool mapped(const SocketAddress& address) {
  constexpr std::array<std::byte, 12> kPrefix = {
      std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},    std::byte{0},
      std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0xff}, std::byte{0xff}};
  return address.family == SocketAddress::Family::inet6 &&
         std::equal(kPrefix.begin(), kPrefix.end(), address.ip.begin());
}

[[noreturn]] void systemError(const std::string& call) {
  throw Error(ErrorCode::system, call + ": " + base::errnoText(errno));
}

} // namespace

bool SocketAddress::loopback() const {
  if (family == Family::unix_abstract) return true;
  if (family == Family::inet) return ip[0] == std::byte{127};
  if (mapped(*this)) return ip[12] == std::byte{127};
  return std::all_of(ip.begin(), ip.end() - 1, [](std::byte b) { return b == std::byte{0}; }) &&
         ip[15] == std::byte{1};
}

std::string SocketAddress::text() const {
  if (family == Family::unix_abstract) {
    const std::string name_text = base::quoted(name);
    return "unix:@" + name_text.substr(1, name_text.size() - 2);
  }
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  const int native = family == Family::inet ? AF_INET : AF_INET6;
  ::inet_ntop(native, ip.data(), buffer.data(), buffer.size());
  std::string host = buffer.data();
  if (family == Family::inet6) {
    if (scope != 0) host += "%" + std::to_string(scope);
    host = "[" + host + "]";
  }
  return host + ":" + std::to_string(port);
}

std::vector<std::byte> SocketAddress::encode() const {
  if (name.size() > kMaxName) {
    throw Error(ErrorCode::invalid_argument,
                "a Unix socket's name has at most " + std::to_string(kMaxName) + " bytes");
  }
  base::Writer writer;
  writer.u8(kVersion);
  writer.u8(static_cast<std::uint8_t>(family));
  const bool is_unix = family == Family::unix_abstract;
  writer.u16(is_unix ? 0 : port);
  writer.u32(family == Family::inet6 ? scope : 0);
  writer.u8(is_unix ? static_cast<std::uint8_t>(name.size()) : 0);
  writer.raw(std::span(ip).first(ipBytes(family)));
  if (is_unix) writer.raw(std::as_bytes(std::span(name)));
  return writer.take();
}

SocketAddress SocketAddress::decode(std::span<const std::byte> bytes) {
  base::Reader reader(bytes, "a socket address");
  if (const int version = reader.u8(); version != kVersion)
    reader.fail("is of version " + std::to_string(version) + ", wanted " +
                std::to_string(kVersion));
  const std::uint8_t family_byte = reader.u8();
  if (family_byte > static_cast<std::uint8_t>(Family::unix_abstract)) {
    reader.fail("is of an unknown family");
  }
  SocketAddress address;
  address.family = static_cast<Family>(family_byte);
  address.port = reader.u16();
  address.scope = reader.u32();
  const std::size_t name_size = reader.u8();
  const bool is_unix = address.family == Family::unix_abstract;
  if ((is_unix && address.port != 0) || (!is_unix && name_size != 0) || name_size > kMaxName ||
      (address.family != Family::inet6 && address.scope != 0)) {
    reader.fail("has fields that its family does not have");
  }
  reader.raw(std::span(address.ip).first(ipBytes(address.family)));
  const auto name_bytes = reader.raw(name_size);
  address.name.assign(reinterpret_cast<const char*>(name_bytes.data()), name_bytes.size());
  reader.finish();
  return address;
}

SocketAddress SocketAddress::parse(const std::string& host_port, const std::string& family,
                                   std::chrono::milliseconds limit) {
  auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "address " + base::quoted(host_port) + ": " + why);
  };
  int native_family = AF_UNSPEC;
  if (family == "AF_INET") native_family = AF_INET;
  else if (family == "AF_INET6") native_family = AF_INET6;
  else if (!family.empty())
    fail("unknown family " + base::quoted(family) + "; valid: AF_INET, AF_INET6");

  const std::size_t colon = host_port.rfind(':');
  if (colon == std::string::npos) fail("no port; wanted host:port or [v6]:port");
  std::string host = host_port.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string::npos) {
    fail("write an IPv6 address with a port as [address]:port");
  }
  // getaddrinfo() reads a C string and would silently ignore everything after a zero byte.
  if (host.empty() || host.find('\0') != std::string::npos) fail("no host name before the port");
  const auto port = base::parseInteger(std::string_view(host_port).substr(colon + 1),
                                       "port of " + base::quoted(host_port), 0, 65535);
  SocketAddress address = resolve(host, native_family, limit).front();
  address.port = static_cast<std::uint16_t>(port);
  return address;
}

NativeAddress toNative(const SocketAddress& address) {
  NativeAddress native;
  switch (address.family) {
    case SocketAddress::Family::inet: {
      sockaddr_in in{};
      in.sin_family = AF_INET;
      in.sin_port = htons(address.port);
      std::memcpy(&in.sin_addr, address.ip.data(), 4);
      std::memcpy(&native.storage, &in, sizeof(in));
      native.length = sizeof(in);
      break;
    }
    case SocketAddress::Family::inet6: {
      sockaddr_in6 in{};
      in.sin6_family = AF_INET6;
      in.sin6_port = htons(address.port);
      in.sin6_scope_id = address.scope;
      std::memcpy(&in.sin6_addr, address.ip.data(), 16);
      std::memcpy(&native.storage, &in, sizeof(in));
      native.length = sizeof(in);
      break;
    }
    case SocketAddress::Family::unix_abstract: {
      if (address.name.empty() || address.name.size() > kMaxName) {
        throw Error(ErrorCode::invalid_argument,
                    "a Unix socket's name has 1 to " + std::to_string(kMaxName) + " bytes");
      }
      sockaddr_un in{};
      in.sun_family = AF_UNIX;
      std::memcpy(in.sun_path + 1, address.name.data(), address.name.size());
      std::memcpy(&native.storage, &in, sizeof(in));
      native.length =
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.name.size());
      break;
    }
  }
  return native;
}

SocketAddress fromNative(const NativeAddress& native) {
  SocketAddress address;
  switch (native.storage.ss_family) {
    case AF_INET: {
      sockaddr_in in{};
      std::memcpy(&in, &native.storage, sizeof(in));
      address.family = SocketAddress::Family::inet;
      address.port = ntohs(in.sin_port);
      std::memcpy(address.ip.data(), &in.sin_addr, 4);
      return address;
    }
    case AF_INET6: {
      sockaddr_in6 in{};
      std::memcpy(&in, &native.storage, sizeof(in));
      address.family = SocketAddress::Family::inet6;
      address.port = ntohs(in.sin6_port);
      address.scope = in.sin6_scope_id;
      std::memcpy(address.ip.data(), &in.sin6_addr, 16);
      return address;
    }
    case AF_UNIX: {
      sockaddr_un in{};
      std::memcpy(&in, &native.storage, sizeof(in));
      address.family = SocketAddress::Family::unix_abstract;
      const std::size_t header = offsetof(sockaddr_un, sun_path) + 1;
      if (native.length > header) address.name.assign(in.sun_path + 1, native.length - header);
      return address;
    }
    default: throw Error(ErrorCode::transport, "a socket of an unknown address family");
  }
}

base::UniqueFd makeStreamSocket(const SocketAddress& address) {
  const NativeAddress native = toNative(address);
  auto fd = base::UniqueFd::of([&] {
    return ::socket(native.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  });
  if (!fd) systemError("socket for " + address.text());
  return fd;
}

SocketAddress localAddress(int fd) {
  NativeAddress native;
  native.length = sizeof(native.storage);
  if (::getsockname(fd, native.get(), &native.length) != 0) systemError("getsockname");
  return fromNative(native);
}

void setNoDelay(int fd, const SocketAddress& address) {
  if (address.family == SocketAddress::Family::unix_abstract) return;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

} // namespace rondo::net
