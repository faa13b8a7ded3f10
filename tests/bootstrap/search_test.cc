// Tests how long a rank waits for the next hub, and how long that hub waits for late ranks.
#include <thread>

#include "base/clock.h"
#include "bootstrap/process_jobs.h"
#include "played_hub.h"
#include "raw_member.h"
#include "support/caught.h"

namespace rondo::test {
namespace {

using namespace played;
using namespace std::chrono_literals;

/// Rank 1, whose hub has died. It is connected to the candidate `next`, which does not serve yet.
struct Search {
  explicit Search(const net::Secret& secret)
      : next(loopback(0), secret, answerBye),
        first(loopback(0), secret, meet),
        membership(joinAt(first, secret, 500ms)) {
    REQUIRE(first.heard(Type::join));
    first.tellCandidate(next.address());
    session = membership->open(20s);
    first.die();
    REQUIRE(next.heard(Type::settled));
  }

  PlayedHub next, first;
  std::shared_ptr<Membership> membership;
  std::unique_ptr<Session> session;
};

} // namespace

// Proves: a rank waits as long as a candidate may need (three seconds to give up a hub that moved,
// then four for other ranks, then one to tell each 64 that are missing), but not for ever.
TEST_CASE(
    "a rank waits 8 s for a candidate that then hosts the hub, and gives up one that never does") {
  const net::Secret secret = net::Secret::random();
  PlayedHub many_next(loopback(0), secret, answerBye), many_first(loopback(0), secret, ignore);
  auto many = joinAt(many_first, secret, 500ms, 700);
  REQUIRE(many_first.heard(Type::join));
  many_first.tellCandidate(many_next.address());
  many_first.die();
  REQUIRE(many_next.heard(Type::settled));
  Search late(secret), never(secret);
  std::this_thread::sleep_for(8s);
  late.next.serve();
  late.session.reset();
  late.membership.reset();
  CHECK(late.next.heard(Type::bye));
  CHECK(says(caught([&] { never.session->survivors(30s); }), ErrorCode::unresponsive,
             {"the other ranks did not replace it in time"}));
  many_next.serve(); // its job has 700 ranks
  many.reset();
  CHECK(many_next.heard(Type::bye));
}

// Proves: a rank that takes over knows that others may give up the silent hub later than itself.
TEST_CASE("a hub that replaces a silent one still admits a rank that gave that one up later") {
  constexpr std::chrono::milliseconds kHeartbeat = 4s;
  const net::Secret secret = net::Secret::random();
  PlayedHub silent(loopback(0), secret, ignore);
  const auto membership = joinAt(silent, secret, kHeartbeat);
  silent.tellCandidate(silent.standby(), 1);
  REQUIRE(silent.closed());
  std::this_thread::sleep_for(4s + 100ms); // it waits for kHeartbeat / 3 longer than 4 s
  Membership::Settings settings = membership->settings();
  settings.hub = silent.standby();
  settings.rank = 0;
  settings.deadline = base::Clock::now() + 20s;
  RawMember late(settings);
  late.join();
  late.frame(Type::settled, RawMember::Raw{});
  CHECK(late.counted());
}

// Proves: a rank that looks for a hub, because the old one died before it had sent this rank the
// address of the new one, finds the new one.
TEST_CASE("a hub dies when it has told some ranks where it moved: the others find the new one") {
  const net::Secret secret = net::Secret::random();
  PlayedHub old(loopback(0), secret, meet);
  auto membership = joinAt(old, secret, 60s);
  old.tellCandidate(old.standby(), 1);
  auto session = membership->open(20s);
  old.offer();
  REQUIRE(old.heard(Type::succeeded));
  const auto hub = ProcessJobs::ofProcess().hubOf(kJob);
  REQUIRE(hub);
  Membership::Settings settings = membership->settings();
  settings.hub = old.standby();
  settings.rank = 0;
  settings.deadline = base::Clock::now() + 20s;
  RawMember other(settings);
  old.move(*hub);
  old.die();
  other.join();
  other.frame(Type::settled, RawMember::Raw{});
  CHECK(other.counted());
  CHECK(other.heard(Type::present)); // all ranks have come
  session.reset();
  membership.reset();
  ProcessJobs::ofProcess().dismiss(kJob);
}

} // namespace rondo::test
