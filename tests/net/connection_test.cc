// Proves: honest peers connect over every address family, with equal session keys and intact
// descriptors; dishonest configurations are refused with typed errors; nothing leaks; close() is
// final.
#include "net/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "net/peers.h"
#include "rondo/error.h"
#include "support/free_port.h"
#include "tools/shell.h"

namespace rondo::test {
namespace {

using namespace net;
using namespace base;

struct Failure {
  ErrorCode code;
  std::string text;
};

/// How a dial fails; the test fails if it succeeds.
Failure failureOf(const Dial::Settings& settings) {
  try {
    Dial(settings).wait();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  FAIL("the connection was made");
  return {};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("both ends connect, agree on the session key, and bytes flow") {
  for (const SocketAddress& address : families()) {
    for (bool with_secret : {true, false}) {
      CAPTURE(address.text(), with_secret);
      const NoLeak check;
      Host host(address, with_secret ? Secret::random() : Secret{});
      for (int round = 0; round < 3; ++round) {
        Dial::Settings settings = host.dial();
        Hello& hello = settings.hello;
        hello.purpose = round == 0 ? Hello::Purpose::control : Hello::Purpose::data;
        hello.rank = round;
        hello.size = 5;
        hello.communicator = 0xfedcba9876543210;
        hello.src = 1;
        hello.dst = 2;
        hello.index = 0xffff;
        hello.part = 15;
        Dial dial(settings);
        UniqueFd mine = dial.wait().plain();
        Accepted theirs = host.take();
        UniqueFd theirs_fd = std::move(theirs.socket).plain();
        CHECK(theirs.hello.purpose == hello.purpose);
        CHECK(theirs.hello.job == kJob);
        CHECK(theirs.hello.rank == hello.rank);
        CHECK(theirs.hello.size == hello.size);
        CHECK(theirs.hello.communicator == hello.communicator);
        CHECK(theirs.hello.src == hello.src);
        CHECK(theirs.hello.dst == hello.dst);
        CHECK(theirs.hello.index == hello.index);
        CHECK(theirs.hello.part == hello.part);
        CHECK(theirs.session_key == dial.sessionKey());
        CHECK(theirs.session_key != Mac{});
        CHECK(theirs.passed.empty());

        for (const UniqueFd* fd : {&mine, &theirs_fd}) {
          CHECK((::fcntl(fd->get(), F_GETFL) & O_NONBLOCK) != 0);
          CHECK((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
          if (address.family != SocketAddress::Family::unix_abstract) {
            int on = 0;
            socklen_t length = sizeof(on);
            CHECK(::getsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, &length) == 0);
            CHECK(on != 0);
          }
        }
        RawPeer a(std::move(mine)), b(std::move(theirs_fd));
        const std::vector<std::byte> text(100, std::byte{42});
        CHECK(a.send(text) == text.size());
        CHECK(b.receive(text.size()) == text);
        CHECK(b.send(text) == text.size());
        CHECK(a.receive(text.size()) == text);
      }
      CHECK(host.acceptor.rejected() == 0);
    }
  }
}

TEST_CASE("bytes that the dialing side sends right after the handshake are not lost") {
  Host host(SocketAddress::parse("127.0.0.1:0", ""));
  Dial dial(host.dial());
  RawPeer mine(dial.wait().plain());
  const std::vector<std::byte> text(3000, std::byte{9});
  mine.send(text);
  Accepted theirs = host.take();
  CHECK(RawPeer(std::move(theirs.socket).plain()).receive(text.size()) == text);
}

TEST_CASE("many dials at once succeed") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""), Secret::random(), 3000ms, 8);
  std::vector<std::unique_ptr<Dial>> dials;
  for (int i = 0; i < 60; ++i) {
    Dial::Settings settings = host.dial();
    settings.hello.rank = i;
    settings.hello.size = 60;
    dials.push_back(std::make_unique<Dial>(settings));
  }
  std::vector<Socket> mine;
  std::vector<bool> seen(60);
  for (auto& dial : dials) mine.push_back(dial->wait());
  for (int i = 0; i < 60; ++i) seen[static_cast<std::size_t>(host.take().hello.rank)] = true;
  CHECK(std::find(seen.begin(), seen.end(), false) == seen.end());
}

TEST_CASE("poll returns the connection when it is ready") {
  Host host(unixAddress());
  Dial dial(host.dial());
  std::optional<Socket> fd;
  CHECK(eventually([&] {
    fd = dial.poll();
    return fd.has_value();
  }));
}

TEST_CASE(
    "another secret, no secret and another job are refused on both sides, and nothing else is") {
  for (const SocketAddress& address : families()) {
    CAPTURE(address.text());
    const NoLeak check;
    Host host(address);
    Dial::Settings settings = host.dial();
    settings.secret = Secret::random();
    Failure failure = failureOf(settings);
    CHECK(failure.code == ErrorCode::transport);
    CHECK(has(failure.text, "secret"));
    CHECK(has(failure.text, host.acceptor.address().text()));
    CHECK(host.rejects(1));

    settings.secret = {};
    failure = failureOf(settings);
    CHECK(failure.code == ErrorCode::transport);
    CHECK(host.rejects(2));

    settings = host.dial();
    ++settings.hello.job;
    failure = failureOf(settings);
    CHECK(failure.code == ErrorCode::transport);
    CHECK(has(failure.text, "another job"));
    CHECK(host.rejects(3));
    CHECK(host.count() == 0);

    // One wrong bit of the secret is enough.
    for (std::size_t bit : {0u, 100u, 255u}) {
      settings = host.dial();
      settings.secret.bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      CHECK(failureOf(settings).code == ErrorCode::transport);
    }
    CHECK(host.rejects(6));
    CHECK(host.count() == 0);
    host.checkWorks();
  }
}

TEST_CASE("without a secret listening and dialing work on loopback only") {
  for (const char* text : {"0.0.0.0:0", "[::]:0", "10.0.0.1:0"}) {
    CAPTURE(text);
    Acceptor::Settings settings;
    settings.address = SocketAddress::parse(text, "");
    Dial::Settings dial;
    dial.address = settings.address;
    dial.deadline = Clock::now() + 1s;
    for (int side = 0; side < 2; ++side) {
      try {
        if (side == 0) Acceptor(settings, [](Accepted) {});
        else Dial(dial).wait();
        FAIL("nothing was thrown");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        CHECK(has(error.what(), "secret"));
        CHECK(has(error.what(), "loopback"));
      }
    }
  }
}

TEST_CASE("up to four descriptors can be passed over Unix sockets") {
  for (std::size_t number = 0; number <= 4; ++number) {
    CAPTURE(number);
    const NoLeak check;
    Host host(unixAddress());
    std::vector<UniqueFd> readers;
    Dial::Settings settings = host.dial();
    std::vector<UniqueFd> writers;
    for (std::size_t i = 0; i < number; ++i) {
      int ends[2];
      REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
      readers.emplace_back(ends[0]);
      writers.emplace_back(ends[1]);
      settings.pass.push_back(ends[1]);
    }
    Dial dial(settings);
    writers.clear(); // they were duplicated at once
    const UniqueFd mine = dial.wait().plain();
    Accepted theirs = host.take();
    REQUIRE(theirs.passed.size() == number);
    for (std::size_t i = 0; i < number; ++i) {
      CHECK((::fcntl(theirs.passed[i].get(), F_GETFD) & FD_CLOEXEC) != 0);
      const char sent = static_cast<char>('a' + i);
      REQUIRE(::write(theirs.passed[i].get(), &sent, 1) == 1);
      char got = 0;
      CHECK(::read(readers[i].get(), &got, 1) == 1);
      CHECK(got == sent);
      theirs.passed[i].reset();
      CHECK(::read(readers[i].get(), &got, 1) == 0); // the last writer is closed: no copy is left
    }
  }
}

TEST_CASE("descriptors that cannot be passed are refused before anything is sent") {
  const NoLeak check;
  Host over_unix(unixAddress()), over_tcp(SocketAddress::parse("127.0.0.1:0", ""));
  Dial::Settings settings = over_unix.dial();
  settings.pass.assign(5, STDERR_FILENO);
  CHECK(failureOf(settings).code == ErrorCode::invalid_argument);
  settings = over_tcp.dial();
  settings.pass.assign(1, STDERR_FILENO);
  CHECK(failureOf(settings).code == ErrorCode::invalid_argument);
  settings = over_unix.dial();
  settings.pass.assign(1, 99999);
  CHECK(failureOf(settings).code == ErrorCode::system);
}

TEST_CASE("a dial waits for a listener that starts later") {
  for (SocketAddress address : families()) {
    // No other socket takes this port between the two listeners.
    if (address.family != SocketAddress::Family::unix_abstract)
      address.port = static_cast<std::uint16_t>(freePort());
    CAPTURE(address.text());
    const NoLeak check;
    auto early = std::make_unique<Host>(address);
    const SocketAddress fixed = early->acceptor.address();
    Dial::Settings settings = early->dial();
    early.reset();
    Dial dial(settings);
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE(dial.poll().has_value());
    Host late(fixed, settings.secret);
    const UniqueFd fd = dial.wait().plain();
    CHECK(late.take().session_key == dial.sessionKey());
  }
}

TEST_CASE("a dial without a listener ends at its deadline and names the address") {
  for (const SocketAddress& address : families()) {
    const NoLeak check;
    auto gone = std::make_unique<Host>(address);
    Dial::Settings settings = gone->dial(50ms);
    gone.reset();
    const Failure failure = failureOf(settings);
    CHECK(failure.code == ErrorCode::timeout);
    CHECK(has(failure.text, settings.address.text()));
  }
}

// Only in the network namespace that the next case makes, which has one local port.
TEST_CASE("where one local port is free, a dial waits for it", "[.][one-port]") {
  REQUIRE(readFile("/proc/sys/net/ipv4/ip_local_port_range") == "40000\t40000\n");
  Host host(SocketAddress::parse("127.0.0.1:50000", ""));
  auto only = std::make_unique<RawPeer>(host.acceptor.address());
  const Failure failure = failureOf(host.dial(50ms));
  CHECK(failure.code == ErrorCode::system);
  CHECK(has(failure.text, "no free local port"));
  CHECK(has(failure.text, host.acceptor.address().text()));
  Dial dial(host.dial());
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(dial.poll().has_value());
  const linger at_once{1, 0}; // the port is free when the socket is closed
  ::setsockopt(only->fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  only.reset();
  dial.wait();
}

// Proves: a lack of local ports is this machine's trouble and may pass, so a dial does not blame
// the peer and does not give up before its deadline.
TEST_CASE("a dial waits for a free local port") {
  if (shell("unshare --net ip link set lo up").status != 0) {
    WARN("not run: it needs root, for a network namespace, and the command ip");
    return;
  }
  const Outcome outcome = shell(
      "unshare --net sh -c 'ip link set lo up && echo 40000 40000 "
      ">/proc/sys/net/ipv4/ip_local_port_range && " RONDO_TEST_PROGRAMS
      "/test_net \"[one-port]\"'");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
}

TEST_CASE("dials may be dropped at any moment") {
  const NoLeak check;
  Host host(SocketAddress::parse("127.0.0.1:0", ""));
  for (int i = 0; i < 100; ++i) {
    Dial dial(host.dial());
    std::this_thread::sleep_for(std::chrono::microseconds(i * 20));
  }
  while (host.count() > 0) host.take();
  host.checkWorks();
}

TEST_CASE("a listener may close, also inside its own callback, and is then silent") {
  const NoLeak check;
  const Secret secret = Secret::random();
  std::atomic<int> calls{0};
  std::unique_ptr<Acceptor> acceptor;
  std::atomic<Acceptor*> raw{nullptr};
  acceptor = std::make_unique<Acceptor>(
      Acceptor::Settings{SocketAddress::parse("127.0.0.1:0", ""), secret, kJob, 128, 3000ms},
      [&](Accepted) {
        ++calls;
        raw.load()->close();
      });
  raw = acceptor.get();
  Dial::Settings settings;
  settings.address = acceptor->address();
  settings.secret = secret;
  settings.hello.job = kJob;
  settings.deadline = Clock::now() + 20s;
  const UniqueFd first = Dial(settings).wait().plain();
  CHECK(eventually([&] { return calls == 1; }));
  settings.deadline = Clock::now() + 50ms;
  CHECK(failureOf(settings).code == ErrorCode::timeout);
  acceptor->close();
  acceptor.reset();
  CHECK(calls == 1);
}

TEST_CASE("after close() no callback runs, whatever is under way") {
  const NoLeak check;
  for (int round = 0; round < 30; ++round) {
    const Secret secret = Secret::random();
    std::atomic<bool> closed{false}, late{false};
    Acceptor acceptor({SocketAddress::parse("127.0.0.1:0", ""), secret, kJob, 128, 3000ms},
                      [&](Accepted) {
                        if (closed) late = true;
                      });
    Dial::Settings settings;
    settings.address = acceptor.address();
    settings.secret = secret;
    settings.hello.job = kJob;
    settings.deadline = Clock::now() + 20s;
    Dial a(settings), b(settings), c(settings);
    std::this_thread::sleep_for(std::chrono::microseconds(round * 50));
    acceptor.close();
    closed = true;
    CHECK_FALSE(late);
  }
}

TEST_CASE(
    "an address in use is Error(system) that names it; a listener survives an exception of its "
    "callback") {
  Host host(SocketAddress::parse("127.0.0.1:0", ""));
  try {
    Host second(host.acceptor.address());
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::system);
    CHECK(has(error.what(), host.acceptor.address().text()));
  }
  const NoLeak check;
  const Secret secret = Secret::random();
  std::atomic<int> calls{0};
  Acceptor throwing({unixAddress(), secret, kJob, 128, 3000ms}, [&](Accepted) {
    ++calls;
    throw Error(ErrorCode::data, "the test's own: a refused connection");
  });
  Dial::Settings settings = host.dial();
  settings.address = throwing.address();
  settings.secret = secret;
  for (int i = 1; i <= 3; ++i) {
    const UniqueFd fd = Dial(settings).wait().plain();
    CHECK(eventually([&] { return calls == i; }));
  }
}

} // namespace rondo::test
