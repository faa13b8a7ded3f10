// Single system calls on a socket, and the errors that they mean.
#include "transports/tcp/socket_io.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "rondo/error.h"
#include "transports/support.h"

namespace rondo::transport::tcp {
namespace {

/// Throws the Error for a failed call. All errors except a lack of memory mean the end of the
/// connection.
[[noreturn]] void fail(int error, const char* what, const SocketSettings& settings) {
  const std::string text = settings.channel + ": " + what + " rank " +
                           std::to_string(settings.peer) + ": " + errnoText(error);
  if (error == ENOMEM || error == ENOBUFS) throw Error(ErrorCode::system, text);
  if (error == ETIMEDOUT) throw Error(ErrorCode::unresponsive, text, settings.peer);
  throw Error(ErrorCode::peer_dead, text, settings.peer);
}

[[noreturn]] void failAtEnd(const SocketSettings& settings) {
  throw Error(
      ErrorCode::peer_dead,
      settings.channel + ": rank " + std::to_string(settings.peer) + " closed the connection",
      settings.peer);
}

[[noreturn]] void failTls(int error, const char* what, const net::Tls& tls,
                          const SocketSettings& settings) {
  const std::string peer = "rank " + std::to_string(settings.peer);
  if (error == EPROTO)
    throw Error(ErrorCode::system, settings.channel + ": libcrypto failed for TLS with " + peer +
                                       " (" + tls.trouble() + ")");
  if (error != EBADMSG) fail(error, what, settings);
  throw Error(ErrorCode::transport,
              settings.channel + ": TLS with " + peer + " failed (" + tls.trouble() +
                  "): bytes may have been changed on the way",
              settings.peer);
}

bool notNow(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

msghdr messageOf(Pieces& pieces) {
  msghdr message{};
  message.msg_iov = pieces.list().data();
  message.msg_iovlen = pieces.list().size();
  return message;
}

} // namespace

std::size_t sendPlain(int fd, Pieces& pieces, const SocketSettings& settings) {
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const auto list = pieces.list();
  const msghdr message = messageOf(pieces);
  for (;;) {
    const ssize_t sent = list.size() == 1 ? ::send(fd, list[0].iov_base, list[0].iov_len, kFlags)
                                          : ::sendmsg(fd, &message, kFlags);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (notNow(errno)) return 0;
    if (errno != EINTR) fail(errno, "sending to", settings);
  }
}

base::Clock::time_point checkAnswered(int fd, base::Clock::time_point since,
                                      const SocketSettings& settings) {
  const auto now = base::Clock::now();
  tcp_info info{};
  socklen_t length = sizeof info;
  // If no data is in flight, no answer is due. That is also so while the peer announces no room.
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_unacked == 0)
    return now;
  since = std::max(since, now - std::chrono::milliseconds(info.tcpi_last_ack_recv));
  if (now - since > settings.silence) fail(ETIMEDOUT, "sending to", settings);
  return since;
}

std::size_t receivePlain(int fd, Pieces& pieces, const SocketSettings& settings) {
  const auto list = pieces.list();
  msghdr message = messageOf(pieces);
  for (;;) {
    const ssize_t got = list.size() == 1
                            ? ::recv(fd, list[0].iov_base, list[0].iov_len, MSG_DONTWAIT)
                            : ::recvmsg(fd, &message, MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) failAtEnd(settings);
    if (notNow(errno)) return 0;
    if (errno != EINTR) fail(errno, "receiving from", settings);
  }
}

std::size_t sendTls(net::Tls& tls, Pieces& pieces, const SocketSettings& settings) {
  const ssize_t sent = tls.send(pieces.list());
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (notNow(errno)) return 0;
  failTls(errno, "sending to", tls, settings);
}

std::size_t receiveTls(net::Tls& tls, Pieces& pieces, const SocketSettings& settings) {
  const ssize_t got = tls.receive(pieces.list());
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) failAtEnd(settings);
  if (notNow(errno)) return 0;
  failTls(errno, "receiving from", tls, settings);
}

std::size_t unacknowledged(int fd) {
  int bytes = 0;
  if (::ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes < 0) return SIZE_MAX; // unknown
  return static_cast<std::size_t>(bytes);
}

void requireSlot(std::uint64_t bytes, const SocketSettings& settings) {
  if (bytes <= settings.size.slot_bytes) return;
  throw Error(ErrorCode::transport,
              settings.channel + ": rank " + std::to_string(settings.peer) +
                  " announced a message of " + std::to_string(bytes) + " bytes, more than " +
                  std::to_string(settings.size.slot_bytes),
              settings.peer);
}

} // namespace rondo::transport::tcp
