// Proves that several lines together carry the same messages as one: every message arrives once,
// whole and in order, while a line is slow, loses data, ends, or connects late. Fast lines carry
// more than slow ones, and the replacement of a line is reported once.
#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "harness.h"
#include "rondo/error.h"
#include "support/test.h"
#include "transports/tcp/ends.h"
#include "transports/tcp/split.h"

namespace rondo::test {
namespace {

using namespace transport;
using namespace std::chrono_literals;
using tcp::LineLoad;

const tcp::SocketSettings kSettings{"test channel", 3, {256 << 10, 4}};

/// Lines in both directions. The test keeps copies of their sockets, to break them.
struct Pairs {
  std::vector<net::Socket> left, right;
  std::vector<base::UniqueFd> kept;
  explicit Pairs(int count) {
    for (int i = 0; i < count; ++i) {
      int fds[2];
      require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0,
              "socketpair");
      left.emplace_back(base::UniqueFd(fds[0]));
      right.emplace_back(base::UniqueFd(fds[1]));
      kept.emplace_back(::fcntl(fds[0], F_DUPFD_CLOEXEC, 0));
    }
  }
};

/// The two ends of a channel over given lines, with the number of reports that other lines replace
/// a line: because it was late, which can happen to any line on a loaded machine, or for another
/// reason.
struct Channel {
  std::vector<std::atomic<int>> late, lost;
  std::unique_ptr<Out> out;
  std::unique_ptr<In> in;

  using Connect = std::function<std::optional<net::Socket>(std::size_t)>;
  explicit Channel(Pairs& pairs, Connect send_late = nullptr, Connect receive_late = nullptr)
      : late(pairs.left.size()), lost(pairs.left.size()) {
    const auto never = [](std::size_t) { return std::optional<net::Socket>(); };
    auto sending = std::make_unique<Port>();
    sending->path = tcp::makeStripedSender({std::move(pairs.left), send_late ? send_late : never,
                                            [this](std::size_t line, const std::string& why) {
                                              ++(why == "it is late" ? late : lost)[line];
                                            }},
                                           kSettings);
    sending->slot_bytes = kSettings.size.slot_bytes;
    sending->depth = kSettings.size.depth;
    out = std::make_unique<Out>(std::move(sending));
    auto receiving = std::make_unique<Port>();
    receiving->path = tcp::makeStripedReceiver(
        {std::move(pairs.right), receive_late ? receive_late : never, {}}, kSettings);
    in = std::make_unique<In>(std::move(receiving));
  }

  /// Sends `count` messages of random sizes, and calls `meanwhile(i)` before each.
  void exchange(int count, const std::function<void(int)>& meanwhile) {
    std::mt19937_64 random(11);
    std::vector<Bytes> bodies;
    for (int i = 0; i < count; ++i)
      bodies.push_back(patternOf(
          bodies.size(), i % 3 ? random() % kSettings.size.slot_bytes + 1 : random() % 300));
    std::atomic<bool> sent = false;
    inParallel({[&] {
                  for (std::size_t i = 0; i < bodies.size(); ++i) {
                    meanwhile(static_cast<int>(i));
                    out->send(i, bodies[i]);
                  }
                  out->flush();
                  sent = true;
                },
                [&] {
                  for (std::size_t i = 0; i < bodies.size(); ++i) {
                    std::uint64_t signature = 0;
                    require(in->next(signature) == bodies[i], "wrong body");
                    require(signature == i, "wrong header");
                  }
                  // The parts of a lost line are sent again, and these lines, unlike TCP, count a
                  // part as arrived only when it was read.
                  for (const Watch watch("for the sender"); !sent; watch.check()) in->peek();
                }});
  }
};

/// Sends parts over lines of given speeds in simulated time. Returns the seconds that it took, and
/// the bytes of each line. At most `window` parts are in flight.
struct Simulated {
  double seconds = 0;
  std::vector<std::size_t> bytes;
};
Simulated simulate(std::span<const double> speeds, int parts, int window) {
  struct Way {
    std::vector<double> ends, begun; // of the parts in flight
    double free_at = 0;
  };
  std::vector<Way> ways(speeds.size());
  std::vector<tcp::Pace> paces(speeds.size());
  Simulated out{0, std::vector<std::size_t>(speeds.size())};
  double now = 0;
  int under_way = 0;
  while (parts > 0 || under_way > 0) {
    if (parts > 0 && under_way < window) {
      std::vector<LineLoad> loads;
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const std::size_t ahead = ways[i].ends.size() * kPartBytes;
        const double age =
            ahead ? now - std::max(ways[i].begun[0], ways[i].ends[0] - kPartBytes / speeds[i]) : 0;
        loads.push_back({true, false, paces[i], ahead, ahead ? kPartBytes : 0,
                         tcp::Seconds(std::max(age, 0.0))});
      }
      const std::size_t line = *tcp::soonest(loads, kPartBytes, out.bytes[0] / kPartBytes);
      Way& way = ways[line];
      way.free_at = std::max(now, way.free_at) + kPartBytes / speeds[line];
      way.begun.push_back(now);
      way.ends.push_back(way.free_at);
      out.bytes[line] += kPartBytes;
      --parts;
      ++under_way;
      continue;
    }
    std::size_t first = 0;
    double end = 1e300;
    for (std::size_t i = 0; i < ways.size(); ++i)
      if (!ways[i].ends.empty() && ways[i].ends[0] < end) {
        end = ways[i].ends[0];
        first = i;
      }
    Way& way = ways[first];
    now = end;
    paces[first].measured(kPartBytes, tcp::Seconds(kPartBytes / speeds[first]));
    way.ends.erase(way.ends.begin());
    way.begun.erase(way.begun.begin());
    --under_way;
  }
  out.seconds = now;
  return out;
}

} // namespace

TEST_CASE("lines: what a lost line carried arrives over any other one of the 128 lines") {
  for (const std::size_t other : {1, 31, 32, 64, 127}) {
    Pairs pairs(2);
    std::vector<net::Socket> left(other + 1), right(other + 1);
    left[0] = std::move(pairs.left[0]); // its peer's end is closed
    left[other] = std::move(pairs.left[1]);
    right[other] = std::move(pairs.right[1]);
    pairs.right[0] = {};
    pairs.left = std::move(left);
    pairs.right = std::move(right);
    Channel(pairs).exchange(1, [](int) {});
  }
}

TEST_CASE("parts cover a body once, in order") {
  for (const std::size_t around : {std::size_t{0}, kPartBytes, 2 * kPartBytes, 16 * kPartBytes})
    for (std::size_t bytes = around < 70 ? 0 : around - 70; bytes <= around + 70; ++bytes) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < tcp::partsOf(bytes); ++i) {
        const tcp::Range range = tcp::partOf(bytes, i);
        REQUIRE(range.begin == at);
        REQUIRE((range.size() > 0 || bytes == 0));
        REQUIRE(range.size() <= kPartBytes);
        at = range.end;
      }
      REQUIRE(at == bytes);
    }
}

TEST_CASE("lines get parts in proportion to their speed, and together take the expected time") {
  const std::vector<std::vector<double>> mixes = {
      {1e8, 1e8}, {1e8, 5e7}, {1e8, 1e7}, {1e8, 1e5}, {1e8, 1e8, 1e8, 1e8}, {1e9, 2e8, 1e8}};
  for (const auto& speeds : mixes) {
    const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    const Simulated run = simulate(speeds, 2000, 16);
    INFO("speeds " << speeds[0] << ' ' << speeds[1]);
    // All lines get the same number of parts until one has arrived on each.
    const double first = 16.0 / static_cast<double>(speeds.size()) * kPartBytes;
    CHECK(run.seconds < 1.06 * 2000 * kPartBytes / all + first / speeds.back());
    for (std::size_t i = 0; i < speeds.size(); ++i)
      CHECK(static_cast<double>(run.bytes[i]) < 1.1 * 2000 * kPartBytes * speeds[i] / all + first);
  }
}

TEST_CASE("the sender does not wait for a line that delivers nothing") {
  LineLoad silent{true, true, {}, kPartBytes, kPartBytes, 1s}, working = silent;
  silent.pace.measured(1000, 1us);
  working.pace.measured(1000, 10us);
  working.oldest_age = 1ms;
  const std::array lines = {silent, working};
  CHECK(tcp::soonest(lines, kPartBytes, 0) == std::size_t{1});
  const std::array none = {LineLoad{}, LineLoad{}};
  CHECK_FALSE(tcp::soonest(none, kPartBytes, 0));
}

TEST_CASE("a line that ends at any moment loses no message and is reported at most once") {
  for (int lines = 2; lines <= 4; ++lines)
    for (const int when : {0, 1, 7, 20}) {
      INFO(lines << " lines, one of which ends at message " << when);
      Pairs pairs(lines);
      auto& victim = pairs.kept[static_cast<std::size_t>(when % lines)];
      Channel channel(pairs);
      channel.exchange(40, [&](int i) {
        if (i == when) ::shutdown(victim.get(), SHUT_RDWR);
      });
      for (std::size_t i = 0; i < channel.lost.size(); ++i) {
        CHECK(channel.lost[i] <= (&pairs.kept[i] == &victim));
        CHECK(channel.late[i] <= 1);
      }
    }
}

TEST_CASE("parts that a line loses arrive on another line, which is reported once") {
  for (const int healthy : {1, 2}) {
    Pairs pairs(healthy + 1), elsewhere(1);
    std::swap(pairs.right[0], elsewhere.right[0]); // whose sender sends nothing
    Channel channel(pairs);
    // Longer than the limit for a late line.
    channel.exchange(60, [](int) { std::this_thread::sleep_for(10ms); });
    CHECK(channel.late[0] == 1);
    // A receiver that waits does not read from the other lines either, so they may be late as well.
    for (int i = 1; i <= healthy; ++i) CHECK(channel.late[static_cast<std::size_t>(i)] <= 1);
    for (const auto& lost : channel.lost) CHECK(lost == 0);
  }
}

TEST_CASE("a line that became slow carries few of the following parts") {
  Pairs pairs(2), relayed(1);
  // Line 0 goes through a relay that can be slow.
  net::Socket from = std::move(pairs.right[0]), to = std::move(relayed.left[0]);
  pairs.right[0] = std::move(relayed.right[0]);
  relayed.kept.clear();
  std::atomic<bool> slow = false, done = false;
  std::atomic<std::size_t> while_slow = 0;
  std::jthread relay([&] {
    Bytes buffer(16 << 10);
    while (!done) {
      const ssize_t got = ::recv(from.get(), buffer.data(), slow ? 1024 : buffer.size(), 0);
      for (ssize_t put = 0; put < got && !done;) {
        const ssize_t now = ::send(to.get(), buffer.data() + put,
                                   static_cast<std::size_t>(got - put), MSG_NOSIGNAL);
        if (now > 0) put += now;
        else std::this_thread::sleep_for(100us);
      }
      if (slow && got > 0) while_slow += static_cast<std::size_t>(got);
      std::this_thread::sleep_for(slow ? 20ms : got > 0 ? 0ms : 1ms); // 51 KB/s
    }
  });
  {
    Channel channel(pairs);
    channel.exchange(400, [&](int i) { slow = i >= 100; });
  }
  done = true;
  // Half of the following 26 MB would have taken four minutes, and the watch ends at two.
  CHECK(while_slow > 0);
}

TEST_CASE("lines may connect late, or not at all, at either end") {
  for (const int late : {0, 2}) {
    Pairs pairs(3);
    std::array<net::Socket, 2> kept;
    kept[0] = std::move(pairs.left[static_cast<std::size_t>(late)]);
    kept[1] = std::move(pairs.right[static_cast<std::size_t>(late)]);
    std::array<std::atomic<int>, 2> asked{};
    const auto later = [&](std::size_t end, int times) {
      return [&, end, times](std::size_t) -> std::optional<net::Socket> {
        if (asked[end]++ != times) return std::nullopt;
        return std::move(kept[end]);
      };
    };
    Channel channel(pairs, later(0, 3), later(1, 2));
    // Nothing arrives until the receiver has checked for the line, which it does when nothing
    // arrives.
    for (int i = 0; i < 200; ++i) channel.in->peek();
    channel.exchange(60, [](int) {});
    CHECK(asked[0] == 4);
    CHECK(asked[1] == 3);
  }
  for (const ErrorCode code : {ErrorCode::timeout, ErrorCode::system}) {
    Pairs pairs(2);
    pairs.left[1].reset();
    pairs.right[1].reset();
    Channel channel(pairs, [code](std::size_t) -> std::optional<net::Socket> {
      throw Error(code, "no such rail");
    });
    channel.exchange(20, [](int) {});
    CHECK(channel.lost[1] == 1);
  }
}

// Proves: a lack of descriptors while a late line connects does not end a channel whose other line
// works, and the receiver takes the line when it has descriptors again.
TEST_CASE("a line that the receiver cannot accept yet is accepted later") {
  for (const ErrorCode code : {ErrorCode::system, ErrorCode::transport}) {
    Pairs pairs(2);
    net::Socket late = std::move(pairs.right[1]);
    std::atomic<int> asked{0};
    Channel channel(pairs, nullptr, [&](std::size_t) -> std::optional<net::Socket> {
      if (asked++ < 3) throw Error(code, "no descriptor is left");
      return std::move(late);
    });
    for (int i = 0; i < 200; ++i) channel.in->peek();
    CHECK(asked == 4);
    channel.exchange(60, [](int) {});
    CHECK(channel.lost[1] == 0);
  }
}

TEST_CASE("the end of the last line ends the channel, at both ends") {
  for (const bool sending : {true, false}) {
    Pairs pairs(3);
    Channel channel(pairs);
    if (sending) pairs.right.clear();
    for (auto& line : pairs.kept) ::shutdown(line.get(), SHUT_RDWR);
    const Bytes body = patternOf(1, 100'000);
    try {
      for (const Watch watch("for the error");; watch.check()) {
        if (!sending) channel.in->peek();
        else if (!channel.out->start(1, body)) channel.out->progress();
      }
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::peer_dead);
      CHECK(error.culprit() == kSettings.peer);
    }
  }
}

TEST_CASE("parts that fit no message are refused before memory is allocated") {
  struct Wrong {
    std::uint64_t bytes, begin;
  };
  for (const Wrong wrong :
       {Wrong{kSettings.size.slot_bytes + 1, 0}, Wrong{~std::uint64_t{0}, 0}, Wrong{100, 1},
        Wrong{100, kPartBytes}, Wrong{kPartBytes, std::uint64_t{1} << 40}}) {
    Pairs pairs(2);
    std::array<std::uint64_t, 4> head = {0, 1, wrong.bytes, wrong.begin};
    REQUIRE(::send(pairs.kept[1].get(), head.data(), sizeof head, 0) == sizeof head);
    Channel channel(pairs);
    CHECK_THROWS_AS(channel.in->peek(), Error);
  }
  // The second part belongs to a message of another size.
  Pairs pairs(2);
  const std::array<std::uint64_t, 4> first = {0, 1, 2 * kPartBytes, 0},
                                     second = {0, 1, 2 * kPartBytes - 1, kPartBytes};
  REQUIRE(::send(pairs.kept[0].get(), first.data(), sizeof first, 0) == sizeof first);
  REQUIRE(::send(pairs.kept[1].get(), second.data(), sizeof second, 0) == sizeof second);
  Channel channel(pairs);
  REQUIRE(channel.in->peek());
  Bytes got(2 * kPartBytes);
  const MutableBytes one{got.data(), got.size()};
  CHECK_THROWS_AS(channel.in->receive(std::span(&one, 1)), Error);
}

} // namespace rondo::test
