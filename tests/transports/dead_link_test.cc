// Proves: if a link loses all data, a tcp channel ends at both ends within three heartbeats and a
// little, and the errors name the peer. A peer that only does not read is waited for.
#include <thread>

#include "harness.h"
#include "rondo/error.h"
#include "support/cut_links.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace transport;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const Kind& tcpKind() {
  for (const Kind& kind : kinds())
    if (kind.name == "tcp") return kind;
  throw std::runtime_error("tcp is not registered");
}

Options quickOptions() {
  Options options;
  options.heartbeat = 1s;
  return options;
}

/// The limit is three heartbeats and one second; this allows as much again for a loaded machine.
constexpr auto kBound = 8s;

void checkNames(const Error& error, int peer) {
  CHECK(error.code() == ErrorCode::unresponsive);
  CHECK(error.culprit() == peer);
  CHECK(std::string(error.what()).find("rank " + std::to_string(peer)) != std::string::npos);
}

} // namespace

TEST_CASE("a dead link ends a channel at both ends, with the peer named") {
  World world(tcpKind(), 2, quickOptions());
  auto [out, in] = world.connect(0, 1);
  auto [back, heard] = world.connect(1, 0); // silent: only keep-alive finds that it is dead
  out.send(1, patternOf(1, 100));
  std::uint64_t signature = 0;
  CHECK(in.next(signature) == patternOf(1, 100));
  const std::vector<int> links = test::links();
  REQUIRE(links.size() >= 2);
  for (const int fd : links) REQUIRE(cutLink(fd));
  const auto begin = Clock::now();
  const Bytes large = patternOf(2, out.port().slot_bytes);
  const auto until = [&](int peer, const auto& look) {
    try {
      while (Clock::now() < begin + kBound) {
        look();
        std::this_thread::sleep_for(1ms);
      }
      FAIL("no end noticed");
    } catch (const Error& error) {
      checkNames(error, peer);
    }
  };
  until(1, [&, &from = out] {
    if (!from.start(2, large)) from.progress();
  });
  until(0, [&, &to = in] { to.peek(); });
  until(1, [&, &to = heard] { to.peek(); });
  CHECK(Clock::now() - begin > 2s); // not before it is certain
}

// The link is cut for several heartbeats, and what was sent meanwhile is transmitted again.
TEST_CASE(
    "a link that does not answer for less than a second goes on, however short the heartbeat") {
  Options options;
  options.heartbeat = Options::kShortestHeartbeat;
  World world(tcpKind(), 2, options);
  auto [out, in] = world.connect(0, 1);
  const std::vector<int> links = test::links();
  REQUIRE(links.size() >= 2);
  for (const int fd : links) REQUIRE(cutLink(fd));
  const Bytes large = patternOf(2, out.port().slot_bytes);
  std::uint64_t sent = 0;
  for (const auto end = Clock::now() + 60ms; Clock::now() < end; std::this_thread::sleep_for(50us))
    if (out.start(2, large)) ++sent;
    else out.progress();
  for (const int fd : links) REQUIRE(mendLink(fd));
  inParallel({[&, &from = out] { from.flush(); },
              [&, &to = in] {
                std::uint64_t signature = 0;
                for (std::uint64_t i = 0; i < sent; ++i)
                  require(to.next(signature) == large, "wrong body");
              }});
}

TEST_CASE("a peer that reads nothing for longer than the limit is waited for") {
  World world(tcpKind(), 2, quickOptions());
  auto [out, in] = world.connect(0, 1);
  const Bytes large = patternOf(2, out.port().slot_bytes);
  std::uint64_t sent = 0;
  for (const auto end = Clock::now() + 7s; Clock::now() < end; std::this_thread::sleep_for(1ms))
    if (out.start(2, large)) ++sent;
  CHECK(out.pending() > 0); // data waits for a peer that has no room
  inParallel({[&, &from = out] { from.flush(); },
              [&, &to = in] {
                std::uint64_t signature = 0;
                for (std::uint64_t i = 0; i < sent; ++i)
                  require(to.next(signature) == large, "wrong body");
              }});
}

} // namespace rondo::test
