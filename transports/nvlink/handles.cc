// Passes descriptors over a connected Unix socket.
#include "transports/nvlink/handles.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "rondo/error.h"
#include "transports/support.h"

namespace rondo::transport::nvlink {

namespace {

/// A message of one byte, with room for one descriptor (or two, because of the alignment).
struct Message {
  char byte = 'M';
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};

  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
};

[[noreturn]] void fail(const std::string& why) {
  throw Error(ErrorCode::transport, "the handle of device memory " + why);
}

} // namespace

void sendHandle(int socket, int handle) {
  Message message;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof handle);
  std::memcpy(CMSG_DATA(rights), &handle, sizeof handle);
  // A new socket has room for one byte.
  if (::sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
    fail("was not sent: " + errnoText(errno));
}

std::optional<base::UniqueFd> receiveHandle(int socket) {
  Message message;
  std::vector<base::UniqueFd> received;
  const base::NoFork whole; // received descriptors get an owner before any fork
  const ssize_t got = ::recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::nullopt;
  if (got < 0) fail("was not received: " + errnoText(errno));
  if (got == 0) fail("was not received: the peer closed the connection");
  if (const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
      rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
    for (std::size_t at = CMSG_LEN(0); at < rights->cmsg_len; at += sizeof(int)) {
      int handle = -1;
      std::memcpy(&handle, reinterpret_cast<const char*>(rights) + at, sizeof handle);
      received.emplace_back(handle);
    }
  if (received.empty() && (message.header.msg_flags & MSG_CTRUNC))
    throw Error(ErrorCode::system,
                "the handle of device memory was not received: " + errnoText(EMFILE));
  if (received.empty()) fail("is missing from the peer's message");
  if (received.size() > 1) fail("came with another descriptor");
  return std::move(received.front());
}

} // namespace rondo::transport::nvlink
