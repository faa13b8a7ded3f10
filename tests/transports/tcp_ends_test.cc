// The ends of tcp's channels on socket pairs with tiny buffers: partial reads and writes in every
// call, several sockets, broken peers.
#include <sys/socket.h>

#include "harness.h"
#include "rondo/error.h"
#include "support/test.h"
#include "transports/tcp/ends.h"
#include "transports/tuning.h"

namespace rondo::test {
namespace {

using namespace transport;
using tcp::SocketSettings;

const SocketSettings kSettings{"test channel", 3, {1 << 20, 4}};

struct SocketPairs {
  std::vector<net::Socket> left, right;
};

SocketPairs makePairs(int count, int buffer_bytes = 0, int type = SOCK_STREAM) {
  SocketPairs out;
  for (int i = 0; i < count; ++i) {
    int fds[2];
    require(::socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    if (buffer_bytes)
      for (const int fd : fds)
        for (const int option : {SO_SNDBUF, SO_RCVBUF})
          ::setsockopt(fd, SOL_SOCKET, option, &buffer_bytes, sizeof buffer_bytes);
    out.left.emplace_back(base::UniqueFd(fds[0]));
    out.right.emplace_back(base::UniqueFd(fds[1]));
  }
  return out;
}

/// Lines that are all connected from the start. On a loaded machine some may be late with their
/// parts.
tcp::Lines linesOf(std::vector<net::Socket> sockets) {
  return {std::move(sockets), [](std::size_t) { return std::nullopt; },
          [](std::size_t, const std::string&) {}};
}

std::unique_ptr<Port> sendingPort(std::vector<net::Socket> sockets) {
  auto port = std::make_unique<Port>();
  port->path = sockets.size() == 1 ? tcp::makeSender(std::move(sockets[0]), kSettings)
                                   : tcp::makeStripedSender(linesOf(std::move(sockets)), kSettings);
  port->slot_bytes = kSettings.size.slot_bytes;
  port->depth = kSettings.size.depth;
  return port;
}

std::unique_ptr<Port> receivingPort(std::vector<net::Socket> sockets) {
  auto port = std::make_unique<Port>();
  port->path = sockets.size() == 1
                   ? tcp::makeReceiver(std::move(sockets[0]), kSettings)
                   : tcp::makeStripedReceiver(linesOf(std::move(sockets)), kSettings);
  return port;
}

std::array<std::byte, 16> header(std::uint64_t signature, std::uint64_t bytes) {
  std::array<std::byte, 16> out;
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<std::byte>(signature >> (8 * i));
    out[8 + i] = static_cast<std::byte>(bytes >> (8 * i));
  }
  return out;
}

/// Requires that the function throws an error with this code that names the peer.
template <class Function>
void checkFails(ErrorCode code, const Function& function) {
  try {
    function();
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == code);
    CHECK(error.culprit() == kSettings.peer);
    CHECK(std::string(error.what()).find("rank 3") != std::string::npos);
  }
}

} // namespace

TEST_CASE("messages survive partial sends and receives in every call, for 1 to 4 sockets") {
  for (int sockets = 1; sockets <= 4; ++sockets)
    for (const int buffer : {1, 16 << 10}) {
      INFO(sockets << " sockets with buffers of " << buffer);
      auto pairs = makePairs(sockets, buffer);
      Out out(sendingPort(std::move(pairs.left)));
      In in(receivingPort(std::move(pairs.right)));
      std::mt19937_64 random(9);
      std::vector<Bytes> bodies;
      for (const std::size_t size : {0u, 8u, 4079u, 4080u, 4081u, 8192u, 65535u, 65536u, 65537u,
                                     131071u, 500'000u, 1u << 20, 0u, 1u})
        bodies.push_back(patternOf(bodies.size(), size));
      for (int i = 0; i < 300; ++i)
        bodies.push_back(patternOf(bodies.size(), random() % (i % 10 == 0 ? 200'000 : 6000)));
      inParallel({[&] {
                    for (std::size_t i = 0; i < bodies.size(); ++i) out.send(i, bodies[i]);
                    out.flush();
                  },
                  [&] {
                    for (std::size_t i = 0; i < bodies.size(); ++i) {
                      std::uint64_t signature = 0;
                      const Bytes got = in.next(signature);
                      require(signature == i, "wrong header");
                      require(got == bodies[i], "wrong body");
                    }
                  }});
    }
}

TEST_CASE("a small message is one send call and one receive call") {
  // On packet sockets each call sends one packet. A second send call would make a second packet,
  // and whatever the first receive call leaves of a packet is lost.
  for (const std::size_t size : {0u, 8u, 1000u, 4080u}) {
    auto pairs = makePairs(1, 0, SOCK_SEQPACKET);
    Out out(sendingPort(std::move(pairs.left)));
    In in(receivingPort(std::move(pairs.right)));
    for (std::uint64_t i = 0; i < 3; ++i) out.send(i, patternOf(i, size));
    CHECK(out.pending() == 0);
    for (std::uint64_t i = 0; i < 3; ++i) {
      std::uint64_t signature = 0;
      CHECK(in.next(signature) == patternOf(i, size));
      CHECK(signature == i);
    }
    CHECK(in.peek() == nullptr);
  }
}

/// Receives the next message while the sender is still sending it.
static Bytes taken(NetworkSender& sender, In& in) {
  const Watch watch("for a message");
  for (; !in.peek(); watch.check()) sender.progress();
  Bytes got(static_cast<std::size_t>(in.peek()->bytes));
  const MutableBytes one{got.data(), got.size()};
  for (; !in.receive(std::span(&one, 1)); watch.check()) sender.progress();
  return got;
}

TEST_CASE("the memory of a small body is free at once, that of a larger one when it was sent") {
  for (const std::size_t size : {kGatherBytes, kGatherBytes + 1}) {
    auto pairs = makePairs(1, 1);
    auto port = sendingPort(std::move(pairs.left));
    NetworkSender& sender = *pathOf<NetworkSender>(*port);
    In in(receivingPort(std::move(pairs.right)));
    const Bytes blocking = patternOf(1, 200'000); // fills the socket
    const ConstBytes before{blocking.data(), blocking.size()};
    REQUIRE(sender.start({1, blocking.size()}, std::span(&before, 1)));
    Bytes memory = patternOf(2, size);
    const ConstBytes pieces[] = {{memory.data(), 7}, {memory.data() + 7, size - 7}};
    REQUIRE(sender.start({2, size}, pieces));
    REQUIRE(sender.pending() == 2);
    const bool small = size <= kGatherBytes;
    CHECK(sender.reads(memory.data(), size) == !small);
    if (small) std::memset(memory.data(), 0, size);
    for (const std::uint64_t number : {1, 2}) {
      CHECK(taken(sender, in) == (number == 1 ? blocking : patternOf(2, size)));
    }
    CHECK(sender.pending() == 0);
  }
}

TEST_CASE("the sender knows which memory it still reads") {
  auto pairs = makePairs(2, 1);
  auto port = sendingPort(std::move(pairs.left));
  NetworkSender& sender = *pathOf<NetworkSender>(*port);
  In in(receivingPort(std::move(pairs.right)));
  const Bytes memory = patternOf(1, 400'000);
  const auto piece = [&](std::size_t at, std::size_t size) {
    return ConstBytes{memory.data() + at, size};
  };
  CHECK_FALSE(sender.reads(memory.data(), memory.size()));
  const ConstBytes first[] = {piece(0, 100'000), piece(200'000, 10)};
  const ConstBytes second[] = {piece(300'000, 50'000)};
  REQUIRE(sender.start({1, 100'010}, first));
  REQUIRE(sender.start({2, 50'000}, second));
  REQUIRE(sender.pending() == 2);
  CHECK(sender.reads(memory.data() + 99'999, 1));
  CHECK(sender.reads(memory.data(), memory.size()));
  CHECK(sender.reads(memory.data() + 200'009, 1000));
  CHECK(sender.reads(memory.data() + 310'000, 1));
  CHECK_FALSE(sender.reads(memory.data() + 100'000, 100'000));
  CHECK_FALSE(sender.reads(memory.data() + 200'010, 99'990));
  CHECK_FALSE(sender.reads(memory.data() + 350'000, 50'000));
  for (int message = 0; message < 2; ++message) {
    taken(sender, in);
  }
  sender.progress();
  CHECK(sender.pending() == 0);
  CHECK_FALSE(sender.reads(memory.data(), memory.size()));
}

TEST_CASE("a peer that closes in the middle, at any byte, is an error that names it") {
  const Bytes body = patternOf(1, 60'000);
  for (const std::size_t cut : {0u, 1u, 15u, 16u, 17u, 5000u, 50'000u}) {
    for (const int sockets : {1, 2}) {
      INFO("after " << cut << " bytes, " << sockets << " sockets");
      auto pairs = makePairs(sockets, 1 << 20);
      In in(receivingPort(std::move(pairs.right)));
      // With several sockets, a part's number and start are around a message's header.
      Bytes wire(sockets == 1 ? 0 : 8);
      const auto head = header(4, body.size());
      wire.insert(wire.end(), head.begin(), head.end());
      if (sockets > 1) wire.resize(32);
      wire.insert(wire.end(), body.begin(), body.end());
      REQUIRE(::send(pairs.left[0].get(), wire.data(), cut, 0) == static_cast<ssize_t>(cut));
      pairs.left.clear();
      checkFails(ErrorCode::peer_dead, [&] {
        const Watch watch("for the error");
        while (!in.peek()) watch.check();
        Bytes got(body.size());
        const MutableBytes one{got.data(), got.size()};
        while (!in.receive(std::span(&one, 1))) watch.check();
      });
    }
  }
}

TEST_CASE("what arrived before an orderly end is delivered, and only then the end is an error") {
  auto pairs = makePairs(1);
  In in(receivingPort(std::move(pairs.right)));
  {
    Out out(sendingPort(std::move(pairs.left)));
    out.send(1, patternOf(1, 8));
    out.send(2, patternOf(2, 9000));
    out.flush();
  }
  std::uint64_t signature = 0;
  CHECK(in.next(signature) == patternOf(1, 8));
  CHECK(in.next(signature) == patternOf(2, 9000));
  for (int again = 0; again < 2; ++again) checkFails(ErrorCode::peer_dead, [&] { in.peek(); });
}

TEST_CASE("sending to a peer that is gone is an error that names it, not a signal") {
  for (const bool pending_first : {false, true}) {
    auto pairs = makePairs(1, 1);
    Out out(sendingPort(std::move(pairs.left)));
    const Bytes body = patternOf(1, 100'000);
    if (pending_first) {
      REQUIRE(out.start(1, body));
      REQUIRE(out.pending() == 1);
    }
    pairs.right.clear();
    checkFails(ErrorCode::peer_dead, [&] {
      if (pending_first) {
        out.progress();
      } else {
        out.start(1, body);
      }
    });
  }
}

TEST_CASE("a header that announces more than a slot is refused before anything is allocated") {
  for (const std::uint64_t bytes :
       {std::uint64_t{kSettings.size.slot_bytes} + 1, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    auto pairs = makePairs(1);
    In in(receivingPort(std::move(pairs.right)));
    const auto head = header(1, bytes);
    REQUIRE(::send(pairs.left[0].get(), head.data(), head.size(), 0) == 16);
    checkFails(ErrorCode::transport, [&] { in.peek(); });
  }
}

} // namespace rondo::test
