// Asks the kernel which user owns the process at the other end of a local connection.
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "net/native_address.h"

namespace rondo::net {
namespace {

std::optional<NativeAddress> nameOf(int fd, int (*call)(int, sockaddr*, socklen_t*)) {
  NativeAddress name;
  name.length = sizeof(name.storage);
  if (call(fd, name.get(), &name.length) != 0) return std::nullopt;
  return name;
}

/// Converts the address to the form of the kernel's socket identities. False for an address of
/// another family.
bool put(const NativeAddress& from, __be32 (&address)[4], __be16& port) {
  if (from.storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &from.storage, sizeof(in));
    std::memcpy(address, &in.sin_addr, sizeof(in.sin_addr));
    port = in.sin_port;
    return true;
  }
  if (from.storage.ss_family != AF_INET6) return false;
  sockaddr_in6 in{};
  std::memcpy(&in, &from.storage, sizeof(in));
  std::memcpy(address, &in.sin6_addr, sizeof(in.sin6_addr));
  port = in.sin6_port;
  return true;
}

struct Request {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

/// A request for the socket at the other end of this connection.
std::optional<Request> aboutPeer(int fd) {
  const auto here = nameOf(fd, ::getsockname), there = nameOf(fd, ::getpeername);
  if (!here || !there) return std::nullopt;
  Request request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<__u8>(there->storage.ss_family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0u;
  inet_diag_sockid& id = request.body.id;
  if (!put(*there, id.idiag_src, id.idiag_sport) || !put(*here, id.idiag_dst, id.idiag_dport))
    return std::nullopt;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

/// The kernel reports a closed socket as root's, so only established ones count.
std::optional<uid_t> ownerOf(const inet_diag_msg& socket) {
  if (socket.idiag_state != TCP_ESTABLISHED || socket.idiag_inode == 0) return std::nullopt;
  return socket.idiag_uid;
}

std::optional<uid_t> userOfTcpPeer(int fd) {
  const auto request = aboutPeer(fd);
  const auto kernel = base::UniqueFd::of(
      [] { return ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG); });
  if (!request || !kernel ||
      ::send(kernel.get(), &*request, sizeof(*request), 0) !=
          static_cast<ssize_t>(sizeof(*request)))
    return std::nullopt;
  // The answer to a request for one socket is available when the request has been sent.
  alignas(nlmsghdr) std::array<char, 4096> answer{};
  ssize_t got = 0;
  do got = ::recv(kernel.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  nlmsghdr header{};
  inet_diag_msg socket{};
  if (got < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof(socket))) return std::nullopt;
  std::memcpy(&header, answer.data(), sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  std::memcpy(&socket, answer.data() + NLMSG_HDRLEN, sizeof(socket));
  return ownerOf(socket);
}

} // namespace

bool sameUser(int fd) {
  NativeAddress here;
  here.length = sizeof(here.storage);
  if (::getsockname(fd, here.get(), &here.length) != 0) return false;
  if (here.storage.ss_family != AF_UNIX) return userOfTcpPeer(fd) == ::geteuid();
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

} // namespace rondo::net
