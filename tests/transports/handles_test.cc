// Handles of device memory that one process passes to another as descriptors.
#include "transports/nvlink/handles.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "rondo/error.h"
#include "support/descriptors.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace transport::nvlink;

struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
    left.reset(fds[0]);
    right.reset(fds[1]);
  }
  base::UniqueFd left, right;
};

/// Sends one byte with `count` descriptors.
void sendSeveral(int socket, std::size_t count) {
  const std::vector<int> handles(count, STDERR_FILENO);
  char byte = 'M';
  iovec part{&byte, 1};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * count));
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
  std::memcpy(CMSG_DATA(rights), handles.data(), sizeof(int) * count);
  REQUIRE(::sendmsg(socket, &header, 0) == 1);
}

Error failureOf(int socket) {
  try {
    receiveHandle(socket);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::aborted, "no error"};
}

} // namespace

TEST_CASE("a handle arrives as a descriptor of the same file") {
  const Pair pair;
  CHECK_FALSE(receiveHandle(pair.right.get()));
  sendHandle(pair.left.get(), pair.left.get());
  const auto handle = receiveHandle(pair.right.get());
  REQUIRE(handle);
  CHECK(::write(handle->get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(pair.right.get(), &byte, 1) == 1);
}

TEST_CASE("a peer that passes several handles is refused, and none of them stays open") {
  for (const std::size_t count : {2, 3, 10}) {
    const Pair pair;
    sendSeveral(pair.left.get(), count);
    const auto before = openDescriptorNumbers();
    CHECK(failureOf(pair.right.get()).code() == ErrorCode::transport);
    CHECK(openDescriptorNumbers() == before);
  }
}

// Proves: a handle for which this process has no descriptor is not the peer's fault.
TEST_CASE("a handle that finds no free descriptor names this process's limit") {
  const Pair pair;
  sendSeveral(pair.left.get(), 1);
  const auto [error, limit] = [&] {
    const NoMoreDescriptors none;
    return std::pair(failureOf(pair.right.get()), none.limit());
  }();
  CHECK(error.code() == ErrorCode::system);
  CHECK(std::string(error.what()).find("limit of open files is " + std::to_string(limit)) !=
        std::string::npos);
}

} // namespace rondo::test
