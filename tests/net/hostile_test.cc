// Proves: whatever strangers send or do not send, they are not accepted, do not stop honest peers,
// leak no descriptor and do not end the process.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "base/log.h"
#include "base/random.h"
#include "net/peers.h"
#include "rondo/error.h"
#include "support/descriptors.h"

namespace rondo::test {
namespace {

using namespace net;
using namespace base;

std::vector<std::byte> randomOf(std::mt19937& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// An honest dialing side by hand, up to its proof.
handshake::ReplyMessage greet(RawPeer& peer, const handshake::HelloMessage& message) {
  peer.send(handshake::encodeHello(message));
  const auto reply = peer.receive(handshake::kReplyBytes);
  REQUIRE(reply.size() == handshake::kReplyBytes);
  return handshake::decodeReply(reply);
}

Mac proofFor(const Host& host, const handshake::HelloMessage& message,
             const handshake::ReplyMessage& reply) {
  return handshake::dialerProof(handshake::keyOf(host.secret), handshake::encodeHello(message),
                                reply.nonce);
}

/// Logs into a file while it lives, and counts lines.
class LogFile {
 public:
  explicit LogFile(LogLevel level) { configureLog(level, path_); }
  ~LogFile() {
    configureLog(LogLevel::warn, "");
    ::unlink(path_.c_str());
  }
  int linesWith(const std::string& text) const {
    std::ifstream file(path_);
    int count = 0;
    for (std::string line; std::getline(file, line);) {
      if (line.find(text) != std::string::npos) ++count;
    }
    return count;
  }

 private:
  const std::string path_ = "/tmp/rondo_hostile_test." + std::to_string(::getpid());
};

/// Lowers this process's limit of descriptors while it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t descriptors) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit low = before_;
    low.rlim_cur = descriptors;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

/// Takes all descriptors that the limit allows.
std::vector<UniqueFd> allDescriptors() {
  std::vector<UniqueFd> all;
  for (int fd = ::dup(STDERR_FILENO); fd >= 0; fd = ::dup(STDERR_FILENO)) all.emplace_back(fd);
  REQUIRE(errno == EMFILE);
  return all;
}

} // namespace

TEST_CASE("a dialing side by hand is accepted; the tests below change one thing each") {
  for (const SocketAddress& address : families()) {
    Host host(address);
    RawPeer peer(host.acceptor.address());
    const auto message = helloMessage();
    const auto reply = greet(peer, message);
    CHECK(reply.proof == handshake::accepterProof(handshake::keyOf(host.secret),
                                                  handshake::encodeHello(message), reply.nonce));
    peer.send(proofFor(host, message, reply));
    CHECK(peer.receive(1) == std::vector<std::byte>{handshake::kWelcome});
    host.take();
    CHECK(host.acceptor.rejected() == 0);
  }
}

TEST_CASE("a hello truncated at any length is dropped and counted") {
  for (const SocketAddress& address : families()) {
    CAPTURE(address.text());
    const NoLeak check;
    Host host(address);
    const auto hello = handshake::encodeHello(helloMessage());
    for (std::size_t size = 0; size < hello.size(); ++size) {
      RawPeer peer(host.acceptor.address());
      peer.send(std::span(hello).first(size));
    }
    CHECK(host.rejects(hello.size()));
    CHECK(host.count() == 0);
    host.checkWorks();
  }
}

TEST_CASE("a proof truncated at any length, or wrong in any byte, is dropped and counted") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""));
  for (std::size_t i = 0; i < handshake::kProofBytes; ++i) {
    {
      RawPeer peer(host.acceptor.address());
      const auto message = helloMessage();
      const Mac proof = proofFor(host, message, greet(peer, message));
      peer.send(std::span(proof).first(i));
    }
    RawPeer peer(host.acceptor.address());
    const auto message = helloMessage();
    Mac proof = proofFor(host, message, greet(peer, message));
    proof[i] ^= std::byte{1};
    peer.send(proof);
    CHECK(peer.closed());
  }
  CHECK(host.rejects(2 * handshake::kProofBytes));
  CHECK(host.count() == 0);
  host.checkWorks();
}

TEST_CASE("a hello of another magic, version, size, purpose or range is dropped at once") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""));
  std::uint64_t rejected = 0;
  // Each byte of the head, the reserved bytes, and the signs of the ranks.
  for (std::size_t at : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 23, 27, 39, 43, 47, 51, 52, 55}) {
    CAPTURE(at);
    auto hello = handshake::encodeHello(helloMessage());
    hello[at] ^= std::byte{0x84};
    RawPeer peer(host.acceptor.address());
    peer.send(hello);
    if (at == 4 || at == 5) { // the reply names the listener's version
      const auto reply = peer.receive(handshake::kReplyBytes);
      CHECK(handshake::decodeReply(reply).proof == Mac{});
    }
    CHECK(peer.closed());
    CHECK(host.rejects(++rejected));
  }
  CHECK(host.count() == 0);
  host.checkWorks();
}

// Proves: of two versions that meet, the dialing one says both; it does not try until its deadline.
TEST_CASE("a dial to a listener of another version names both versions") {
  const NoLeak check;
  const auto any = SocketAddress::parse("127.0.0.1:0", "");
  const UniqueFd listener = RawPeer::unconnected(any);
  NativeAddress native = toNative(any);
  REQUIRE(::bind(listener.get(), native.get(), native.length) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), native.get(), &native.length) == 0);
  Dial::Settings settings;
  settings.address = any;
  settings.address.port = ntohs(reinterpret_cast<const sockaddr_in&>(native.storage).sin_port);
  settings.secret = Secret::random();
  settings.hello.job = kJob;
  settings.deadline = Clock::now() + std::chrono::minutes(10);
  Dial dial(settings);
  RawPeer newer(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  CHECK(newer.receive(handshake::kHelloBytes).size() == handshake::kHelloBytes);
  auto reply = handshake::encodeReply({});
  reply[4] = std::byte{7};
  newer.send(reply);
  try {
    dial.wait();
    FAIL("it connected");
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).find("is of version 7, wanted 1") != std::string::npos);
  }
}

TEST_CASE("random bytes of any size are dropped; bytes beyond the message are not read") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""));
  std::mt19937 random(20);
  std::uint64_t peers = 0;
  for (std::size_t size : {1u, 4u, 31u, 87u, 88u, 89u, 128u, 129u, 1000u, 65536u, 4000000u}) {
    for (int round = 0; round < 3; ++round) {
      RawPeer peer(host.acceptor.address());
      peer.send(randomOf(random, size));
      ++peers;
    }
  }
  CHECK(host.rejects(peers));
  CHECK(host.count() == 0);
  host.checkWorks();
}

TEST_CASE("a recorded handshake cannot be replayed") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""));
  const auto message = helloMessage();
  RawPeer honest(host.acceptor.address());
  const auto reply = greet(honest, message);
  const Mac proof = proofFor(host, message, reply);
  honest.send(proof);
  CHECK(honest.receive(1).size() == 1);
  host.take();
  for (int round = 1; round <= 5; ++round) {
    RawPeer replay(host.acceptor.address());
    const auto fresh = greet(replay, message);
    CHECK(fresh.nonce != reply.nonce);
    replay.send(proof);
    CHECK(replay.closed());
    // Nor can the listener's own proof be sent back to it.
    RawPeer reflection(host.acceptor.address());
    reflection.send(greet(reflection, message).proof);
    CHECK(reflection.closed());
    CHECK(host.rejects(static_cast<std::uint64_t>(2 * round)));
  }
  CHECK(host.count() == 0);
}

TEST_CASE("a peer that sends one byte at a time is dropped at the time limit") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""), Secret::random(), 1s);
  const auto hello = handshake::encodeHello(helloMessage());
  RawPeer slow(host.acceptor.address());
  std::size_t sent = 0;
  // 88 bytes at this pace would take five times the limit.
  const Deadline deadline(20s);
  while (host.acceptor.rejected() == 0 && !deadline.passed() && sent + 1 < hello.size()) {
    slow.send(std::span(hello).subspan(sent++, 1));
    std::this_thread::sleep_for(60ms);
  }
  CHECK(slow.closed());
  CHECK(host.rejects(1));
  // So is a peer that stops between hello and proof.
  RawPeer silent(host.acceptor.address());
  greet(silent, helloMessage());
  CHECK(silent.closed());
  CHECK(host.rejects(2));
  host.checkWorks();
}

TEST_CASE("an honest peer is accepted among hundreds of idle connections") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""), Secret::random(), 60s, 128);
  std::vector<std::unique_ptr<RawPeer>> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(std::make_unique<RawPeer>(host.acceptor.address()));
  }
  host.checkWorks();
  // At most the limit are half-open; the oldest were dropped.
  CHECK(eventually([&] { return host.acceptor.rejected() >= 72; }));
  CHECK(idle.front()->closed());
  CHECK(host.count() == 0);
  host.checkWorks();
}

TEST_CASE("as many connections may be half-open as there are honest peers, plus 64") {
  Host host(SocketAddress::parse("127.0.0.1:0", ""), Secret::random(), 60s, 10);
  host.acceptor.expect(40);
  std::vector<std::unique_ptr<RawPeer>> idle;
  for (int i = 0; i < 120; ++i) idle.push_back(std::make_unique<RawPeer>(host.acceptor.address()));
  CHECK(host.rejects(120 - (40 + 64)));
  CHECK(idle[15]->closed());
  host.checkWorks();
  CHECK(host.rejects(17));
}

TEST_CASE("descriptors from strangers are closed") {
  const NoLeak check;
  Host host(unixAddress());
  std::uint64_t rejected = 0;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  struct Case {
    std::uint8_t announced;
    std::size_t passed;
    bool proven;
  };
  for (const Case& c : {Case{1, 1, false}, Case{4, 4, false}, Case{0, 1, true}, Case{1, 0, true},
                        Case{2, 1, true}, Case{1, 2, true}, Case{4, 5, true}}) {
    CAPTURE(int(c.announced), c.passed, c.proven);
    RawPeer peer(host.acceptor.address());
    const auto message = helloMessage(c.announced);
    Mac proof = proofFor(host, message, greet(peer, message));
    if (!c.proven) proof[0] ^= std::byte{1};
    peer.sendWith(proof, std::vector<int>(c.passed, writer.get()));
    CHECK(peer.closed());
    CHECK(host.rejects(++rejected));
  }
  {
    // With the hello, before any proof.
    RawPeer peer(host.acceptor.address());
    peer.sendWith(handshake::encodeHello(helloMessage(1)), {writer.get()});
    CHECK(peer.closed());
    CHECK(host.rejects(++rejected));
  }
  {
    // One more than announced, in pieces.
    RawPeer peer(host.acceptor.address());
    const auto message = helloMessage(1);
    const Mac proof = proofFor(host, message, greet(peer, message));
    peer.sendWith(std::span(proof).first(16), {writer.get()});
    peer.sendWith(std::span(proof).last(16), {writer.get()});
    CHECK(peer.closed());
    CHECK(host.rejects(++rejected));
  }
  CHECK(host.count() == 0);
  writer.reset();
  char byte = 0;
  CHECK(::read(reader.get(), &byte, 1) == 0); // no copy of the writer is left
}

// Proves: if a descriptor gets the number of a closed standard stream and no other number is free,
// the descriptors after it are closed, too.
TEST_CASE("descriptors are closed if one of them cannot be kept") {
  const NoLeak check;
  Host host(unixAddress());
  RawPeer peer(host.acceptor.address());
  const auto message = helloMessage(2);
  const Mac proof = proofFor(host, message, greet(peer, message));
  const UniqueFd input = UniqueFd::of([] { return ::dup(STDIN_FILENO); });
  REQUIRE(input);
  {
    const DescriptorLimit few(100);
    std::vector<UniqueFd> last = allDescriptors();
    last.pop_back();
    ::close(STDIN_FILENO);
    peer.sendWith(proof, {STDERR_FILENO, STDERR_FILENO});
    CHECK(peer.closed());
  }
  REQUIRE(::dup2(input.get(), STDIN_FILENO) == STDIN_FILENO);
  CHECK(host.rejects(1));
}

TEST_CASE("each kind of bad peer is logged once per listener, however many connect") {
  const LogFile log(LogLevel::warn);
  Host host(SocketAddress::parse("127.0.0.1:0", ""));
  std::mt19937 random(22);
  auto another_job = helloMessage();
  another_job.hello.job = 1;
  for (int i = 0; i < 20; ++i) {
    RawPeer(host.acceptor.address()).send(randomOf(random, handshake::kHelloBytes));
    RawPeer stranger(host.acceptor.address());
    stranger.send(handshake::encodeHello(another_job));
    CHECK(stranger.receive(handshake::kReplyBytes).size() == handshake::kReplyBytes);
  }
  CHECK(host.rejects(40));
  CHECK(log.linesWith("was refused") == 2);
  CHECK(log.linesWith("another job") == 1);
}

TEST_CASE("a process without free descriptors waits quietly, and accepts when it has some again") {
  const LogFile log(LogLevel::trace);
  {
    const NoLeak check;
    Host host(SocketAddress::parse("127.0.0.1:0", ""));
    RawPeer peer(RawPeer::unconnected(host.acceptor.address()));
    // All numbers up to the last of these are in use, so none is left below the limit.
    std::vector<UniqueFd> fill;
    for (int i = 0; i < 8; ++i) fill.emplace_back(::dup(STDERR_FILENO));
    {
      const DescriptorLimit few(static_cast<rlim_t>(fill.back().get()) + 1);
      peer.connect(host.acceptor.address());
      std::this_thread::sleep_for(300ms);
    }
    const auto message = helloMessage();
    peer.send(proofFor(host, message, greet(peer, message)));
    CHECK(peer.receive(1).size() == 1);
    host.take();
  }
  const int lines = log.linesWith("cannot accept connections");
  CHECK(lines >= 1);
  CHECK(lines < 50); // it retried now and then; a spinning loop logs tens of thousands of lines
}

TEST_CASE("a lack of descriptors that has ended does not make the next one a lasting one") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""), Secret::random(), 600s, 1000);
  RawPeer first(RawPeer::unconnected(host.acceptor.address()));
  RawPeer second(RawPeer::unconnected(host.acceptor.address()));
  {
    const NoMoreDescriptors none;
    first.connect(host.acceptor.address());
    std::this_thread::sleep_for(100ms); // until the acceptor has noticed
  }
  std::this_thread::sleep_for(1s); // it accepts the first peer, which never sends its hello
  const NoMoreDescriptors none;
  second.connect(host.acceptor.address());
  std::this_thread::sleep_for(100ms);
  CHECK_NOTHROW(host.acceptor.throwIfStarved());
}

TEST_CASE("an idle connection is dropped when the program has taken the last descriptor") {
  const NoLeak check;
  // Within the test's time only dropping a connection helps, and no limit forces that.
  Host host(SocketAddress::parse("127.0.0.1:0", ""), Secret::random(), 600s, 1000);
  const std::size_t before = openDescriptors();
  std::vector<std::unique_ptr<RawPeer>> idle;
  for (int i = 0; i < 3; ++i) idle.push_back(std::make_unique<RawPeer>(host.acceptor.address()));
  REQUIRE(eventually([&] { return openDescriptors() == before + 2 * idle.size(); }));
  RawPeer peer(RawPeer::unconnected(host.acceptor.address()));
  {
    const DescriptorLimit few(100);
    const std::vector<UniqueFd> last = allDescriptors();
    peer.connect(host.acceptor.address());
    const auto message = helloMessage();
    peer.send(proofFor(host, message, greet(peer, message)));
    CHECK(peer.receive(1).size() == 1);
  }
  host.take();
  CHECK(host.rejects(1));
  CHECK(idle.front()->closed());
}

TEST_CASE("a connection with the last descriptor is kept while no other peer connects") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""), Secret::random(), 600s, 1000);
  RawPeer peer(RawPeer::unconnected(host.acceptor.address()));
  {
    const DescriptorLimit few(100);
    std::vector<UniqueFd> last = allDescriptors();
    REQUIRE(!last.empty());
    last.pop_back();
    peer.connect(host.acceptor.address());
    std::this_thread::sleep_for(100ms); // its hello is in flight
    const auto message = helloMessage();
    peer.send(proofFor(host, message, greet(peer, message)));
    CHECK(peer.receive(1).size() == 1);
  }
  host.take();
  CHECK(host.acceptor.rejected() == 0);
}

TEST_CASE("idle connections leave descriptors to the program, and let honest peers in") {
  const NoLeak check;
  // Within the test's time only dropping connections helps.
  Host host(SocketAddress::parse("127.0.0.1:0", ""), Secret::random(), 600s, 1000);
  std::array<int, 2> ready{}, over{};
  REQUIRE(::pipe2(ready.data(), O_CLOEXEC) == 0);
  REQUIRE(::pipe2(over.data(), O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    ::close(over[1]);
    const NativeAddress native = toNative(host.acceptor.address());
    for (int i = 0; i < 300; ++i)
      ::connect(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), native.get(), native.length);
    char byte = 0;
    ::_exit(::write(ready[1], &byte, 1) == 1 && ::read(over[0], &byte, 1) == 0 ? 0 : 1);
  }
  {
    const DescriptorLimit few(100);
    char byte = 0;
    CHECK(::read(ready[0], &byte, 1) == 1);
    for (int i = 0; i < 3; ++i) host.checkWorks();
    // The rest is available to the program.
    CHECK(UniqueFd(::dup(STDERR_FILENO)));
  }
  for (const int end : {ready[0], ready[1], over[0], over[1]}) ::close(end);
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

} // namespace rondo::test
