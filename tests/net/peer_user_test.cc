// Proves: without a secret, and over Unix sockets, only processes of the same user can connect,
// whatever they send.
#include <sys/wait.h>
#include <unistd.h>

#include "net/peers.h"
#include "rondo/error.h"

namespace rondo::test {
namespace {

using namespace net;

constexpr uid_t kAnother = 65534;

/// Only root may become another user.
bool mayChangeUser() { return ::geteuid() == 0; }

/// Runs the body in a child of another user. The child's exit status is the body's result.
template <class Body>
pid_t asAnother(const Body& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  ::alarm(30);
  ::_exit(::setuid(kAnother) == 0 ? body() : 99);
}

int statusOf(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool receiveAll(int fd, std::span<std::byte> into) {
  std::size_t have = 0;
  while (have < into.size()) {
    const ssize_t got = ::recv(fd, into.data() + have, into.size() - have, 0);
    if (got <= 0) return false;
    have += static_cast<std::size_t>(got);
  }
  return true;
}

bool sendAll(int fd, std::span<const std::byte> bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::vector<SocketAddress> loopbacks() {
  return {SocketAddress::parse("127.0.0.1:0", ""), SocketAddress::parse("[::1]:0", "")};
}

int socketOf(const SocketAddress& address) {
  return ::socket(toNative(address).storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/// The dialing side's whole handshake: 0 if it was accepted. `key`: of an absent secret, if not
/// given.
int intrude(const SocketAddress& address, const Key& key = {}) {
  const int fd = socketOf(address);
  const NativeAddress native = toNative(address);
  if (::connect(fd, native.get(), native.length) != 0) return 1;
  const handshake::HelloBytes hello = handshake::encodeHello(helloMessage());
  handshake::ReplyBytes reply{};
  std::array<std::byte, 1> welcome{};
  if (!sendAll(fd, hello) || !receiveAll(fd, reply)) return 7;
  const auto nonce = handshake::decodeReply(reply).nonce;
  if (!sendAll(fd, handshake::dialerProof(key, hello, nonce)) || !receiveAll(fd, welcome)) return 8;
  return 0;
}

/// The accepting side's handshake, for one connection.
int impersonate(int listener) {
  const int fd = ::accept(listener, nullptr, nullptr);
  handshake::HelloBytes hello{};
  if (!receiveAll(fd, hello)) return 1;
  handshake::ReplyMessage reply;
  reply.proof = handshake::accepterProof({}, hello, reply.nonce);
  handshake::ReplyBytes bytes = handshake::encodeReply(reply);
  std::array<std::byte, handshake::kProofBytes> proof{};
  if (!sendAll(fd, bytes) || !receiveAll(fd, proof)) return 7;
  return 0;
}

} // namespace

TEST_CASE("without a secret processes of the same user can connect over loopback") {
  for (const SocketAddress& address : loopbacks()) {
    CAPTURE(address.text());
    Host host(address, Secret{});
    host.checkWorks();
    CHECK(host.rejects(0));
  }
}

TEST_CASE(
    "without a secret another user's process is refused; with a secret it must prove the secret") {
  if (!mayChangeUser()) {
    WARN("skipped: only root may become another user");
    return;
  }
  for (const SocketAddress& address : loopbacks()) {
    CAPTURE(address.text());
    Host host(address, Secret{});
    CHECK(statusOf(asAnother([&] { return intrude(host.acceptor.address()); })) == 7);
    CHECK(host.rejects(1));
    host.checkWorks();
    Host with_secret(address);
    CHECK(statusOf(asAnother([&] { return intrude(with_secret.acceptor.address()); })) == 8);
  }
}

TEST_CASE("over a Unix socket another user's process is refused, also if it knows the secret") {
  if (!mayChangeUser()) {
    WARN("skipped: only root may become another user");
    return;
  }
  Host host(unixAddress());
  const Key key = handshake::keyOf(host.secret);
  CHECK(intrude(host.acceptor.address(), key) == 0);
  const int status = statusOf(asAnother([&] { return intrude(host.acceptor.address(), key); }));
  CHECK(status == 7);
  CHECK(host.rejects(1));
}

TEST_CASE("without a secret a dial proves nothing to another user's listener") {
  if (!mayChangeUser()) {
    WARN("skipped: only root may become another user");
    return;
  }
  for (const SocketAddress& address : loopbacks()) {
    CAPTURE(address.text());
    std::array<int, 2> port{};
    REQUIRE(::pipe(port.data()) == 0);
    const pid_t child = asAnother([&] {
      const int listener = socketOf(address);
      const NativeAddress native = toNative(address);
      if (::bind(listener, native.get(), native.length) != 0 || ::listen(listener, 4) != 0)
        return 2;
      const std::uint16_t number = localAddress(listener).port;
      if (::write(port[1], &number, sizeof number) != sizeof number) return 3;
      return impersonate(listener);
    });
    Dial::Settings settings;
    settings.address = address;
    REQUIRE(::read(port[0], &settings.address.port, 2) == 2);
    settings.hello.job = kJob;
    settings.deadline = Deadline(20s).at();
    std::string text;
    try {
      Dial(settings).wait();
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::transport);
      text = error.what();
    }
    CHECK(text.find("another user") != std::string::npos);
    CHECK(statusOf(child) == 7);
    for (const int end : port) ::close(end);
  }
}

} // namespace rondo::test
