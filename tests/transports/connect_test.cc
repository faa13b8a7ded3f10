// How channels connect: unknown clients, wrong communicators, descriptors, options.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "harness.h"
#include "rondo/error.h"
#include "support/cut_links.h"
#include "support/descriptors.h"
#include "support/forked_child.h"
#include "support/grid.h"
#include "support/test.h"
#include "transports/mailbox.h"
#include "transports/support.h"
#include "transports/tuning.h"

namespace rondo::test {
namespace {

using namespace transport;

const Kind& kindNamed(std::string_view name) {
  for (const Kind& kind : kinds())
    if (kind.name == name) return kind;
  throw std::runtime_error(std::string(name) + " is not registered");
}

/// tcp's address is a version, a number of sockets, and the listeners; here there is one.
net::SocketAddress tcpListener(const Address& address) {
  return net::SocketAddress::decode(std::span(address).subspan(2 + 1 + 4));
}

/// A connection to the port that sends nothing.
base::UniqueFd strangerAt(const net::SocketAddress& listener) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(listener.port);
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) == 0);
  return fd;
}

void exchange(World& world, int src, int dst, int index = 0) {
  auto [out, in] = world.connect(src, dst, index);
  out.send(3, patternOf(3, 500));
  std::uint64_t signature = 0;
  CHECK(in.next(signature) == patternOf(3, 500));
}

} // namespace

TEST_CASE("the default is the fastest transport that reaches the peer") {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds()) {
    names.push_back(kind.name);
    CHECK_FALSE(kind.summary.empty());
  }
  CHECK(names == std::vector<std::string_view>{"inproc", "shm", "ucx", "tcp"});
  // Without a board, the ranks cannot know that they share a process.
  Context context = makeContext(0, 2, 7, {}, net::Secret::random(), nullptr);
  CHECK(kindNamed("inproc").make(context) == nullptr);
  CHECK(kindNamed("shm").make(context) != nullptr);
  CHECK(kindNamed("tcp").make(context) != nullptr);
}

// Proves: the dial's deadline comes before the channel's, whose error would only blame the peer.
TEST_CASE("a sender that does not get a connection says what its dial has met") {
  Options options;
  options.init_timeout = std::chrono::seconds(2);
  World world(kindNamed("tcp"), 2, options);
  const Address address = world.address(1);
  world.remove(1);
  const auto pending = world[0].open(world.id(0, 1), address);
  const Watch watch("for the timeout");
  try {
    while (!pending->poll()) watch.check();
    FAIL("it connected without a peer");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::timeout);
    CHECK(std::string(error.what()).find("connecting to 127.0.0.1:") != std::string::npos);
  }
}

TEST_CASE("channel_bytes and channel_depth share out the slots") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64},
                                  std::size_t{1000}, std::size_t{65536}, kMaxChannelBytes})
    for (const int depth : {0, 1, 2, 3, 8, 63, 64}) {
      const ChannelSize size = channelSize(withSize(bytes, depth), kMappedSize);
      CHECK(size.depth == (depth ? depth : kMappedSize.depth));
      CHECK(size.slot_bytes % 64 == 0);
      CHECK(size.slot_bytes >= 64);
      const std::size_t total = bytes ? bytes : kMappedSize.slot_bytes * 8;
      const auto slots = static_cast<std::size_t>(size.depth);
      CHECK((size.slot_bytes == 64 || size.slot_bytes * slots <= total));
      CHECK((size.slot_bytes + 64) * slots > total);
    }
}

TEST_CASE("several sockets for a channel, also if the two sides ask for different numbers") {
  for (const int sockets : {1, 2, 3, 4, 16}) {
    INFO(sockets << " sockets");
    Options options;
    options.tcp_sockets = sockets;
    World world(kindNamed("tcp"), 2, options);
    auto [out, in] = world.connect(0, 1);
    for (const std::size_t size : {8ul, 65535ul, 65536ul, out.port().slot_bytes}) {
      const Bytes body = patternOf(size, size);
      inParallel({[&, &from = out] {
                    from.send(size, body);
                    from.flush();
                  },
                  [&, &to = in] {
                    std::uint64_t signature = 0;
                    require(to.next(signature) == body, "wrong body");
                  }});
    }
  }
  const net::Secret secret = net::Secret::random();
  Options four, two;
  four.tcp_sockets = 4;
  two.tcp_sockets = 2;
  const Kind& kind = kindNamed("tcp");
  const auto a = kind.make(makeContext(0, 2, 7, four, secret, nullptr));
  const auto b = kind.make(makeContext(1, 2, 7, two, secret, nullptr));
  const auto to = b->open({7, 0, 1, 0}, a->address());
  const auto from = a->open({7, 0, 1, 0}, b->address());
  Out out(wait(*from));
  In in(wait(*to));
  const Bytes body = patternOf(1, 200'000);
  inParallel({[&] {
                out.send(1, body);
                out.flush();
              },
              [&] {
                std::uint64_t signature = 0;
                require(in.next(signature) == body, "wrong body");
              }});
}

TEST_CASE("tcp works over IPv6") {
  const net::Secret secret = net::Secret::random();
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    Context context = makeContext(rank, 2, 7, {}, secret, nullptr);
    context.bind_address = net::SocketAddress::parse("[::1]:0", "");
    ranks.push_back(kindNamed("tcp").make(context));
  }
  const auto to = ranks[1]->open({7, 0, 1, 0}, ranks[0]->address());
  const auto from = ranks[0]->open({7, 0, 1, 0}, ranks[1]->address());
  Out out(wait(*from));
  In in(wait(*to));
  out.send(1, patternOf(1, 100));
  std::uint64_t signature = 0;
  CHECK(in.next(signature) == patternOf(1, 100));
}

TEST_CASE("tcp's options: the kernel checks congestion control, Rondo checks numbers") {
  Options options;
  options.tcp_congestion = "reno"; // every Linux has it, for every user
  World world(kindNamed("tcp"), 2, options);
  exchange(world, 0, 1);
  for (const int sockets : {0, -1, 17}) {
    Options wrong;
    wrong.tcp_sockets = sockets;
    CHECK_THROWS_AS(World(kindNamed("tcp"), 1, wrong), Error);
  }
  options.tcp_congestion = "no-such-control";
  try {
    World refused(kindNamed("tcp"), 1, options);
    FAIL("the kernel took it");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()).find("no-such-control") != std::string::npos);
    CHECK(std::string(error.what()).find("reno") != std::string::npos); // the valid names
  }
}

// Proves: a socket to the same machine takes little data ahead of the receiver. A socket to another
// machine has the kernel's default.
TEST_CASE("tcp's sockets to the same machine have small send buffers") {
  const auto small = [] {
    int count = 0;
    for (const int fd : openDescriptorNumbers()) {
      int bytes = 0;
      socklen_t length = sizeof bytes;
      if (connectedTcp(fd) && ::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0)
        count += bytes == 2 * kNearSendBytes;
    }
    return count;
  };
  for (const auto& [listener, near] : {std::pair("127.0.0.1:0", 1), std::pair("127.0.0.2:0", 0)}) {
    const net::Secret secret = net::Secret::random();
    Context sender = makeContext(0, 2, 7, {}, secret, nullptr);
    Context receiver = makeContext(1, 2, 7, {}, secret, nullptr);
    receiver.bind_address = net::SocketAddress::parse(listener, "");
    const auto from = kindNamed("tcp").make(sender), to = kindNamed("tcp").make(receiver);
    const auto in = to->open({7, 0, 1, 0}, from->address());
    const auto out = from->open({7, 0, 1, 0}, to->address());
    const auto left = wait(*out), right = wait(*in);
    INFO(listener);
    CHECK(small() == near);
  }
}

TEST_CASE("unknown clients of the listener do not disturb the ranks") {
  World world(kindNamed("tcp"), 2);
  const net::SocketAddress listener = tcpListener(world.address(1));
  std::mt19937_64 random(1);
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 40; ++i) {
    base::UniqueFd fd = strangerAt(listener);
    Bytes garbage(random() % 500);
    for (auto& b : garbage) b = static_cast<std::byte>(random());
    if (!garbage.empty()) ::send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    // A third of them stay connected, silent or not; the others close.
    if (i % 3 == 0) strangers.push_back(std::move(fd));
  }
  exchange(world, 0, 1);
  exchange(world, 1, 0);
}

TEST_CASE("a listener keeps as many half-open connections as there are ranks, and 64 more") {
  const Context context = makeContext(0, 150, 7, {}, net::Secret::random(), nullptr);
  const auto transport = kindNamed("tcp").make(context);
  const net::SocketAddress listener = tcpListener(transport->address());
  std::byte byte{};
  // A busy machine may need so long that the first one is closed for its silence: then try again.
  for (int tries = 0; tries < 10; ++tries) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<base::UniqueFd> silent;
    for (int i = 0; i < 180; ++i) silent.push_back(strangerAt(listener));
    // By then the last one would have displaced the first one.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const bool open = ::recv(silent.front().get(), &byte, 1, MSG_DONTWAIT) == -1;
    const auto limit = net::Acceptor::Settings{}.handshake_limit;
    if (!open && std::chrono::steady_clock::now() - start > limit / 2) continue;
    CHECK(open);
    return;
  }
  FAIL("this machine is too busy");
}

TEST_CASE("a connection with a wrong secret, communicator, rank or number opens no channel") {
  for (const std::string_view name : {"shm", "tcp"}) {
    INFO(name);
    World world(kindNamed(name), 3);
    const Address address = world.address(1);
    const auto listener =
        name == "tcp" ? tcpListener(address)
                      : net::SocketAddress::decode(std::span(address).subspan(1 + 36 + 8 + 4));
    const ChannelId id = world.id(0, 1);
    std::vector<std::unique_ptr<net::Dial>> dials;
    const auto dial = [&](const std::function<void(net::Dial::Settings&)>& change) {
      auto settings = dialSettings(world.context(0), listener, id, 0);
      settings.deadline = base::Clock::now() + std::chrono::milliseconds(300);
      change(settings);
      dials.push_back(std::make_unique<net::Dial>(settings));
    };
    dial([](auto& s) { s.secret = net::Secret::random(); });
    dial([](auto& s) { s.hello.job ^= 1; });
    dial([](auto& s) { s.hello.communicator ^= 1; });
    dial([](auto& s) { s.hello.src = 1; });
    dial([](auto& s) { s.hello.src = 3; });
    dial([](auto& s) { s.hello.src = -1; });
    dial([](auto& s) { s.hello.dst = 3; });
    dial([](auto& s) { s.hello.index = -1; });
    dial([](auto& s) { s.hello.index = 0x10000; });
    dial([](auto& s) { s.hello.part = 16; });
    dial([](auto& s) { s.hello.part = -1; });
    dial([](auto& s) { s.hello.purpose = net::Hello::Purpose::control; });
    // They are refused, or accepted and dropped. A dial that is refused may retry until its
    // deadline.
    const Watch watch("for the strangers");
    for (const auto& stranger : dials) {
      try {
        while (!stranger->poll()) watch.check();
      } catch (const Error&) {
      }
    }
    // A connection made now is handled after all of them, and none of them was for channel 0 -> 1.
    auto pending = world.open(1, id);
    exchange(world, 0, 1, 1);
    CHECK(pending->poll() == nullptr);
    exchange(world, 0, 2);
  }
}

TEST_CASE("a second connection for the same channel is closed and the first one stays in use") {
  World world(kindNamed("tcp"), 2);
  auto [out, in] = world.connect(0, 1);
  net::Dial again(dialSettings(world.context(0), tcpListener(world.address(1)), world.id(0, 1), 0));
  const base::UniqueFd second = again.wait().plain();
  const Watch watch("for the end of the second connection");
  std::byte byte;
  while (::recv(second.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) watch.check();
  out.send(1, patternOf(1, 100));
  std::uint64_t signature = 0;
  CHECK(in.next(signature) == patternOf(1, 100));
}

TEST_CASE("all communicators of a process share one listener per transport") {
  for (const std::string_view name : {"shm", "tcp"}) {
    INFO(name);
    const World first(kindNamed(name), 2, {}, 1000);
    const std::size_t before = openDescriptors();
    std::vector<std::unique_ptr<World>> worlds;
    for (std::uint64_t i = 1; i <= 50; ++i)
      worlds.push_back(std::make_unique<World>(kindNamed(name), 3, Options{}, 1000 + i));
    CHECK(openDescriptors() == before);
    // Each serves its own ranks, with its own secret. Closing some does not affect the others.
    worlds.erase(worlds.begin(), worlds.begin() + 10);
    exchange(*worlds.front(), 0, 1);
    exchange(*worlds.back(), 2, 1);
    // The same rank of the same communicator again, as another transport would have it.
    World twin(kindNamed(name), 3, {}, 1050);
    exchange(twin, 2, 1);
    exchange(*worlds.back(), 1, 2);
  }
}

TEST_CASE("descriptors are closed") {
  // The first round may start objects that stay for the process, such as its event loop.
  std::size_t before = 0;
  for (int round = 0; round < 4; ++round) {
    for (const Kind& kind : conformingKinds()) {
      Options options;
      options.tcp_sockets = 2;
      World world(kind, 3, options);
      exchange(world, 0, 1);
      exchange(world, 1, 2);
      auto never_polled = world.open(0, world.id(0, 2));
      auto never_met = world.open(0, world.id(1, 0));
      auto [out, in] = world.connect(2, 0);
    }
    if (round == 0) {
      // Descriptors are closed on the event loop's thread: wait until their number is stable.
      for (int calm = 0; calm < 50; ++calm) {
        const std::size_t now = openDescriptors();
        if (now != before) calm = 0;
        before = now;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
  }
  for (const Watch watch("for the descriptors to be closed"); openDescriptors() > before;)
    watch.check();
  CHECK(openDescriptors() <= before);
}

TEST_CASE(
    "a forked child drops its copy of a mailbox while the listener's other mailboxes change") {
  net::SocketAddress any;
  any.family = net::SocketAddress::Family::unix_abstract;
  const auto secret = net::Secret::random();
  auto box = std::make_unique<Mailbox>(makeContext(0, 2, 1, {}, secret, nullptr), any, 1);
  std::atomic<int> rank{0};
  const Meanwhile busy([&] {
    const Context context = makeContext(rank++ % 64, 64, 2, {}, secret, nullptr);
    for (int i = 0; i < 1000; ++i) Mailbox(context, any, 1);
  });
  CHECK(manyChildrenEnd(
      [&] {
        box.reset();
        return 0;
      },
      kWholeGrid ? 250 : 10));
}

} // namespace rondo::test
