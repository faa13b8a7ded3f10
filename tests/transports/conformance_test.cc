// The properties that the engine relies on, for every transport of the registry (a new one is
// covered by its line), and for one with properties that none of these has: a large address, and
// one worker for all its channels.
#include <algorithm>

#include "harness.h"
#include "rondo/error.h"
#include "support/grid.h"
#include "support/test.h"
#include "transports/support.h"

namespace rondo::test {
namespace {

using namespace transport;

std::vector<std::size_t> interestingSizes(std::size_t slot) {
  return {0, 1, 39, 40, 41, 63, 64, 65, 4079, 4080, 4081, slot - 1, slot};
}

/// A size like those of collectives: mostly small, some large.
std::size_t randomSize(std::mt19937_64& random, std::size_t slot) {
  switch (random() % 4) {
    case 0: return random() % 64;
    case 1: return random() % 4200;
    case 2: return random() % (slot / 8);
    default: return random() % 8 == 0 ? slot : random() % 512;
  }
}

} // namespace

TEST_CASE("ports have the kind and sizes of the transport and the options") {
  for (const Kind& kind : conformingKinds()) {
    for (const auto& options : {Options{}, withSize(64 << 10, 3), withSize(1, 64)}) {
      INFO(kind.name << " with " << options.channel_bytes << " x " << options.channel_depth);
      World world(kind, 2, options);
      CHECK(world[0].name() == kind.name);
      CHECK(world.address(0).size() <= kMostAddressBytes);
      CHECK(world[0].reaches(world.address(1)));
      CHECK(world[1].reaches(world.address(0)));
      auto [out, in] = world.connect(0, 1);
      for (const Port* port : {&out.port(), &in.port()}) {
        CHECK(port->slot_bytes == world[0].slotBytes());
        CHECK(port->slot_bytes % 64 == 0);
        CHECK(port->slot_bytes >= 64);
        if (options.channel_depth) {
          CHECK(port->depth == options.channel_depth);
        }
      }
      CHECK(world[0].mapped() == (pathOf<SlotRing>(out.port()) != nullptr));
      CHECK(world[0].mapped() == (pathOf<SlotRing>(in.port()) != nullptr));
      CHECK(world[0].mapped() != (pathOf<NetworkSender>(out.port()) != nullptr));
      CHECK(world[0].mapped() != (pathOf<NetworkReceiver>(in.port()) != nullptr));
    }
  }
}

TEST_CASE("messages arrive whole, in order, for every size and slot shape") {
  for (const Kind& kind : conformingKinds()) {
    for (const auto& options :
         {Options{}, withSize(64, 1), withSize(256, 1), withSize(64 << 10, 3)}) {
      World world(kind, 2, options);
      auto channel = world.connect(0, 1); // lambdas cannot use a structured binding
      Out& out = channel.first;
      In& in = channel.second;
      const auto sizes = interestingSizes(out.port().slot_bytes);
      std::vector<Bytes> bodies;
      for (std::size_t i = 0; i < 3 * sizes.size(); ++i)
        bodies.push_back(patternOf(i, std::min(sizes[i % sizes.size()], out.port().slot_bytes)));
      inParallel({[&] {
                    for (std::size_t i = 0; i < bodies.size(); ++i) out.send(1000 + i, bodies[i]);
                    out.flush();
                  },
                  [&] {
                    for (std::size_t i = 0; i < bodies.size(); ++i) {
                      std::uint64_t signature = 0;
                      const Bytes got = in.next(signature);
                      require(signature == 1000 + i, "wrong header");
                      require(got.size() == bodies[i].size(), "wrong size");
                      requirePattern(i, got.data(), got.size());
                    }
                    require(in.peek() == nullptr, "more than was sent");
                  }});
    }
  }
}

TEST_CASE("thousands of messages each way at once, small and large, without a deadlock") {
  // Each rank is one thread that sends and receives, like the engine. The bodies are larger than
  // all buffers between the two ranks.
  for (const Kind& kind : conformingKinds()) {
    INFO(kind.name);
    World world(kind, 2);
    auto there = world.connect(0, 1), back = world.connect(1, 0);
    Out &out0 = there.first, &out1 = back.first;
    In &in1 = there.second, &in0 = back.second;
    constexpr std::uint64_t kMessages = kWholeGrid ? 10'000 : 2'000;
    const auto rank = [&](Out& out, In& in) {
      std::mt19937_64 sizes(5), expected(5);
      const std::size_t slot = out.port().slot_bytes;
      // A body must not change while it is pending: as many buffers as can be pending, and one
      // more.
      std::vector<Bytes> ring(static_cast<std::size_t>(out.port().depth) + 1);
      std::uint64_t sent = 0, received = 0;
      bool made = false, in_body = false;
      Bytes body;
      Watch watch("for a message to move, either way");
      while (sent < kMessages || received < kMessages || out.pending() > 0) {
        watch.check();
        if (sent < kMessages) {
          Bytes& next = ring[sent % ring.size()];
          if (!made) {
            const std::size_t size = randomSize(sizes, slot);
            next.assign(size, std::byte{static_cast<unsigned char>(sent)});
            made = true;
          }
          if (out.start(sent, next)) {
            watch.moved();
            ++sent;
            made = false;
          }
        } else {
          out.progress();
        }
        if (received == kMessages) continue;
        if (!in_body) {
          const MessageHeader* header = in.peek();
          if (!header) continue;
          require(header->signature == received, "out of order");
          require(header->bytes == randomSize(expected, slot), "wrong size");
          body.assign(static_cast<std::size_t>(header->bytes), std::byte{0});
          in_body = true;
        }
        const MutableBytes one{body.data(), body.size()};
        if (!in.receive(std::span(&one, 1))) continue;
        watch.moved();
        in_body = false;
        const std::byte mark{static_cast<unsigned char>(received)};
        require(
            std::count(body.begin(), body.end(), mark) == static_cast<std::ptrdiff_t>(body.size()),
            "wrong byte");
        ++received;
      }
    };
    inParallel({[&] { rank(out0, in0); }, [&] { rank(out1, in1); }});
  }
}

TEST_CASE(
    "a sender can start `depth` messages before the first receive, but not unlimited messages") {
  for (const Kind& kind : conformingKinds()) {
    for (const int depth : {1, 2, 8, 64}) {
      for (const bool large : {false, true}) {
        INFO(kind.name << " depth " << depth << (large ? ", full slots" : ", 8 bytes"));
        World world(kind, 2, withSize(static_cast<std::size_t>(depth) * (64 << 10), depth));
        auto [out, in] = world.connect(0, 1);
        const Bytes body = patternOf(1, large ? out.port().slot_bytes : 8);
        int started = 0;
        constexpr int kTooMany = 2'000'000; // more than any kernel buffers
        while (started < kTooMany && out.start(static_cast<std::uint64_t>(started), body)) {
          ++started;
          require(out.pending() <= static_cast<std::size_t>(depth), "more pending than depth");
        }
        if (out.mapped()) {
          CHECK(started == (large ? depth : 2 * depth * static_cast<int>(kLinesPerSlot)));
        } else {
          CHECK(started >= depth);
          CHECK(started < kTooMany);
        }
        // All of them arrive, and then there is room again.
        const Watch watch("for what was started");
        Bytes got(body.size());
        const MutableBytes one{got.data(), got.size()};
        for (int i = 0; i < started; ++i) {
          for (; !in.peek(); watch.check()) out.progress();
          require(in.peek()->signature == static_cast<std::uint64_t>(i), "out of order");
          for (; !in.receive(std::span(&one, 1)); watch.check()) out.progress();
          require(got == body, "wrong body");
        }
        CHECK(in.peek() == nullptr);
        CHECK(out.pending() == 0);
        CHECK(out.start(1, body));
      }
    }
  }
}

TEST_CASE("channels between the same ranks, and other ranks' channels, do not mix") {
  for (const Kind& kind : conformingKinds()) {
    INFO(kind.name);
    constexpr int kRanks = 3, kIndices = 3;
    World world(kind, kRanks, withSize(4096, 2));
    struct Link {
      ChannelId id;
      Out out;
      In in;
    };
    std::vector<Link> links;
    for (int src = 0; src < kRanks; ++src)
      for (int dst = 0; dst < kRanks; ++dst)
        for (int i = 0; i < kIndices; ++i) {
          if (src == dst) continue;
          const int index = i == 0 ? ChannelId::kPointToPoint : i;
          auto [out, in] = world.connect(src, dst, index);
          links.push_back({world.id(src, dst, index), std::move(out), std::move(in)});
        }
    const auto mark = [](const ChannelId& id) {
      return static_cast<std::uint64_t>(id.src * 1'000'000 + id.dst * 100'000 + id.index);
    };
    for (Link& link : links) link.out.send(mark(link.id), patternOf(mark(link.id), 100));
    for (Link& link : links) {
      std::uint64_t signature = 0;
      const Bytes got = link.in.next(signature);
      CHECK(signature == mark(link.id));
      CHECK(got == patternOf(mark(link.id), 100));
      CHECK(link.in.peek() == nullptr);
    }
  }
}

TEST_CASE("either end may be opened long before the other") {
  for (const Kind& kind : conformingKinds()) {
    for (const bool sender_first : {true, false}) {
      INFO(kind.name << (sender_first ? ", sender first" : ", receiver first"));
      World world(kind, 2);
      const ChannelId id = world.id(0, 1);
      const int first = sender_first ? 0 : 1;
      auto early = world.open(first, id);
      std::unique_ptr<Port> early_port;
      // For a while only one end exists. It may or may not be usable already, and never throws.
      for (int i = 0; i < 1000; ++i) {
        if (!early_port) early_port = early->poll();
        Watch("").check();
      }
      if (!sender_first) {
        CHECK(early_port == nullptr);
      }
      auto late = world.open(1 - first, id);
      std::unique_ptr<Port> late_port;
      for (const Watch watch("for both ends"); !early_port || !late_port; watch.check()) {
        if (!early_port) early_port = early->poll();
        if (!late_port) late_port = late->poll();
      }
      Out out(std::move(sender_first ? early_port : late_port), world[0].worker());
      In in(std::move(sender_first ? late_port : early_port), world[1].worker());
      out.send(5, patternOf(5, 1000));
      std::uint64_t signature = 0;
      CHECK(in.next(signature) == patternOf(5, 1000));
      CHECK(signature == 5);
    }
  }
}

TEST_CASE("sent messages arrive although the sender's end is destroyed before the receiver polls") {
  for (const Kind& kind : conformingKinds()) {
    INFO(kind.name);
    World world(kind, 2, withSize(4096, 2));
    auto to = world.open(1, world.id(0, 1));
    {
      auto from = world.open(0, world.id(0, 1));
      Out out(wait(*from), world[0].worker());
      out.send(1, patternOf(1, 777));
      out.send(2, patternOf(2, 40));
      out.flush();
    }
    world.remove(0);
    In in(wait(*to), world[1].worker());
    for (std::uint64_t i : {1u, 2u}) {
      std::uint64_t signature = 0;
      CHECK(in.next(signature) == patternOf(i, i == 1 ? 777 : 40));
      CHECK(signature == i);
    }
  }
}

TEST_CASE("bodies may have any address and any number of pieces") {
  for (const Kind& kind : conformingKinds()) {
    INFO(kind.name);
    World world(kind, 2);
    auto channel = world.connect(0, 1);
    Out& out = channel.first;
    In& in = channel.second;
    const std::size_t slot = out.port().slot_bytes;
    std::uint64_t number = 0;
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{5000}, slot})
      for (const std::size_t pieces : {1u, 2u, 3u, 64u, 65u, 300u})
        for (const std::size_t shift : {0u, 1u, 3u}) {
          ++number;
          // Sentinels around the target detect writes outside it.
          Bytes source(size + shift), target(size + shift + 16, std::byte{0xa5});
          for (std::size_t i = 0; i < size; ++i) source[shift + i] = pattern(number, i);
          std::vector<ConstBytes> from;
          std::vector<MutableBytes> to;
          for (std::size_t i = 0; i < pieces; ++i) {
            // The two sides use different pieces, some of them empty.
            const std::size_t a = size * i / pieces, b = size * (i + 1) / pieces;
            from.push_back({source.data() + shift + a, b - a});
          }
          const std::size_t cut = size / 3;
          to.push_back({target.data() + shift, cut});
          to.push_back({nullptr, 0});
          to.push_back({target.data() + shift + cut, size - cut});
          inParallel({[&] {
                        for (const Watch watch("to start"); !out.start(number, from);)
                          watch.check();
                        out.flush();
                      },
                      [&] {
                        const Watch watch("for the message");
                        while (!in.peek()) watch.check();
                        require(in.peek()->bytes == size, "wrong size");
                        while (!in.receive(to)) watch.check();
                        requirePattern(number, target.data() + shift, size);
                        for (std::size_t i = 0; i < target.size(); ++i)
                          require((i >= shift && i < shift + size) || target[i] == std::byte{0xa5},
                                  "written outside of the body");
                      }});
        }
  }
}

TEST_CASE("an end whose peer is missing gets a timeout that names the peer") {
  for (const Kind& kind : conformingKinds()) {
    INFO(kind.name);
    Options options;
    options.init_timeout = std::chrono::milliseconds(100);
    World world(kind, 3, options);
    auto pending = world.open(0, world.id(2, 0));
    const Watch watch("for the timeout");
    try {
      while (!pending->poll()) watch.check();
      FAIL("it connected without a peer");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::timeout);
      CHECK(error.culprit() == 2);
      CHECK(std::string(error.what()).find("2 -> 0") != std::string::npos);
    }
  }
}

TEST_CASE("a sender whose peer has closed does not wait forever") {
  for (const Kind& kind : conformingKinds()) {
    INFO(kind.name);
    Options options;
    options.init_timeout = std::chrono::milliseconds(200);
    World world(kind, 2, options);
    const Address gone = world.address(1);
    world.remove(1);
    auto pending = world[0].open(world.id(0, 1), gone);
    const Watch watch("for the error");
    try {
      while (!pending->poll()) watch.check();
      FAIL("it connected without a peer");
    } catch (const Error& error) {
      CHECK((error.code() == ErrorCode::timeout || error.code() == ErrorCode::transport ||
             error.code() == ErrorCode::peer_dead));
      CHECK(error.culprit() == 1);
    }
  }
}

TEST_CASE("impossible channels are refused") {
  for (const Kind& kind : conformingKinds()) {
    INFO(kind.name);
    World world(kind, 3);
    const std::uint64_t here = world.context(0).communicator;
    for (const ChannelId& id :
         {ChannelId{here, 0, 0, 0}, ChannelId{here, 0, 3, 0}, ChannelId{here, -1, 0, 0},
          ChannelId{here, 1, 2, 0}, ChannelId{here, 0, 1, -1}, ChannelId{here, 0, 1, 0x10000},
          ChannelId{here + 1, 0, 1, 0}}) {
      INFO(describe("", id) << " of " << id.communicator);
      try {
        world[0].open(id, world.address(1));
        FAIL("it was opened");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
      }
    }
  }
}

TEST_CASE("options out of range are refused when the transport is made") {
  for (const Kind& kind : conformingKinds())
    for (const auto& options :
         {withSize(0, -1), withSize(0, 65), withSize(kMaxChannelBytes + 1, 1)}) {
      INFO(kind.name << " with " << options.channel_bytes << " x " << options.channel_depth);
      try {
        World world(kind, 1, options);
        FAIL("it was made");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
      }
    }
}

TEST_CASE("arbitrary address bytes give a typed error or an answer") {
  for (const Kind& kind : conformingKinds()) {
    INFO(kind.name);
    World world(kind, 2);
    const Address good = world.address(1);
    const auto attempt = [&](const Address& bytes) {
      try {
        (void)world[0].reaches(bytes);
        return true;
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::transport);
        return false;
      }
    };
    CHECK(attempt(good));
    for (std::size_t size = 0; size < good.size(); ++size)
      CHECK_FALSE(attempt(Address(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))));
    Address longer = good;
    longer.push_back(std::byte{0});
    CHECK_FALSE(attempt(longer));
    std::mt19937_64 random(3);
    for (int i = 0; i < (kWholeGrid ? 20'000 : 2'000); ++i) {
      Address bytes(random() % 300);
      for (auto& b : bytes) b = static_cast<std::byte>(random());
      if (i % 2) {
        bytes = good;
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      }
      attempt(bytes);
    }
  }
}

} // namespace rondo::test
