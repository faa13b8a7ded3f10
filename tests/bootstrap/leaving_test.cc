// Tests ranks that end, wait or take over while the hub moves. The test plays the hubs, so that
// messages come in the same order each time.
#include <future>
#include <thread>
#include <utility>

#include "bootstrap/process_jobs.h"
#include "played_hub.h"
#include "raw_member.h"
#include "support/free_port.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace played;
using namespace std::chrono_literals;

} // namespace

// Proves: the next hub gets the bye, and so does not take the rank for dead.
TEST_CASE("a bye that crosses the news of a move is said again to the next hub") {
  const net::Secret secret = net::Secret::random();
  PlayedHub next(loopback(0), secret, answerBye);
  PlayedHub first(loopback(0), secret, [&](Link& link, Type type) {
    if (type == Type::bye) link.send(Type::moved, frames::Moved{0, next.address()});
  });
  auto membership = joinAt(first, secret, 60s);
  membership.reset();
  CHECK(next.heard(Type::settled));
  CHECK(next.heard(Type::bye));
}

// Proves: the same, if the rank has read the news of the move but has not yet reached the next hub.
TEST_CASE("a rank that ends while it connects to the next hub says bye there") {
  const net::Secret secret = net::Secret::random();
  const net::SocketAddress later = loopback(freePort());
  PlayedHub first(loopback(0), secret, ignore);
  auto membership = joinAt(first, secret, 60s);
  first.move(later);
  REQUIRE(first.closed());
  std::thread ends([&] { membership.reset(); });
  std::this_thread::sleep_for(50ms); // if the rank connects before it ends, nothing is tested
  {
    PlayedHub next(later, secret, answerBye);
    CHECK(next.heard(Type::bye));
    ends.join();
  }
}

// Proves: a rank that ends while the hub is replaced is not missing at the new hub.
TEST_CASE("a rank that ends while it looks for a new hub says bye there") {
  const net::Secret secret = net::Secret::random();
  PlayedHub next(loopback(0), secret, answerBye);
  PlayedHub first(loopback(0), secret, ignore);
  auto membership = joinAt(first, secret, 60s);
  REQUIRE(first.heard(Type::join));
  first.tellCandidate(next.address());
  first.die();
  REQUIRE(next.heard(Type::settled));
  std::thread ends([&] { membership.reset(); });
  std::this_thread::sleep_for(
      50ms); // if the new hub serves before the rank ends, nothing is tested
  next.serve();
  CHECK(next.heard(Type::bye));
  ends.join();
}

// Proves: no later rank of this process gets a hub that waits for the rank that has ended.
TEST_CASE("a rank that ends before its offer is decided closes the hub that it opened") {
  const net::Secret secret = net::Secret::random();
  PlayedHub hub(loopback(0), secret, meet);
  auto membership = joinAt(hub, secret, 60s);
  REQUIRE(hub.heard(Type::join));
  hub.tellCandidate(loopback(freePort()));
  auto session = membership->open(20s);
  hub.offer();
  REQUIRE(hub.heard(Type::succeeded));
  CHECK(ProcessJobs::ofProcess().hubOf(kJob));
  session.reset();
  membership.reset();
  CHECK(hub.heard(Type::bye));
  CHECK_FALSE(ProcessJobs::ofProcess().hubOf(kJob));
}

// Proves: a hub that moves in a job without a secret can ask ranks whether they live, since they
// listen without a secret, too.
TEST_CASE("a hub that moved in a job without a secret asks a missing rank whether it lives") {
  std::promise<void> asked;
  net::Acceptor::Settings settings;
  settings.address = loopback(0);
  settings.job = kJob;
  net::Acceptor rank_zero(settings, [&, once = false](const net::Accepted& peer) mutable {
    if (peer.hello.communicator == Standby::kProbe && !std::exchange(once, true)) asked.set_value();
  });
  PlayedHub first(loopback(0), {}, meet);
  auto membership = joinAt(first, {}, 60s);
  REQUIRE(first.heard(Type::join));
  first.tellCandidate(rank_zero.address());
  auto session = membership->open(20s);
  first.offer();
  REQUIRE(first.heard(Type::succeeded));
  const auto hub = ProcessJobs::ofProcess().hubOf(kJob);
  REQUIRE(hub);
  first.move(*hub);
  CHECK(asked.get_future().wait_for(20s) == std::future_status::ready);
  session.reset();
  membership.reset();
  ProcessJobs::ofProcess().dismiss(kJob);
}

// Proves: a rendezvous is withdrawn, or its ranks meet; not both.
TEST_CASE("an id is withdrawn while its last rank joins: no ranks meet at a hub that ends") {
  ProcessJobs& jobs = ProcessJobs::ofProcess();
  Hub::Settings hub;
  hub.address = loopback(0);
  hub.secret = net::Secret::random();
  hub.job = kJob;
  hub.size = 2;
  Membership::Settings settings;
  settings.hub = jobs.host(hub);
  settings.secret = hub.secret;
  settings.job = kJob;
  settings.size = 2;
  settings.deadline = base::Clock::now() + 20s;
  RawMember first(settings);
  first.join();
  settings.rank = 1;
  RawMember last(settings);
  REQUIRE(first.counted());

  const auto loop = net::EventLoop::get();
  std::promise<void> goes_on;
  loop->post([&] { goes_on.get_future().wait(); });
  std::jthread withdraws([&] { jobs.withdraw(kJob); });
  std::this_thread::sleep_for(200ms); // if it asks the hub later, nothing is tested
  loop->post([&] { last.join(); });
  goes_on.set_value();
  withdraws.join();
  if (!jobs.hubOf(kJob)) {
    REQUIRE(first.heard(Type::farewell));
    CHECK_FALSE(first.hasHeard(Type::welcome));
  }
  jobs.dismiss(kJob);
}

// Proves: the next hub hears only of calls that still wait.
TEST_CASE("the next hub is told that a call waits, unless the call has ended") {
  for (const bool ended : {false, true}) {
    INFO((ended ? "it has ended" : "it waits"));
    const net::Secret secret = net::Secret::random();
    PlayedHub next(loopback(0), secret, answerBye);
    PlayedHub first(loopback(0), secret, meet);
    const auto membership = joinAt(first, secret, 60s);
    REQUIRE(first.heard(Type::join));
    first.tellCandidate(loopback(freePort()));
    const auto session = membership->open(20s);
    session->progress().calls.enter(1, 4711);
    session->stalled({1, 0, "Barrier #1"});
    session->stalled({0, 0, "Send"}); // is reported again anyway
    REQUIRE(first.heard(Type::stalled));
    if (ended) session->progress().completed = 1;
    first.move(next.address());
    REQUIRE(next.heard(Type::settled));
    CHECK(next.hasHeard(Type::stalled) == !ended);
  }
}

// Proves: a hub that is stopped keeps no rank from ending.
TEST_CASE("a rank whose bye is not answered ends all the same") {
  const net::Secret secret = net::Secret::random();
  PlayedHub hub(loopback(0), secret, ignore);
  auto membership = joinAt(hub, secret, 60s);
  membership.reset();
  CHECK(hub.heard(Type::bye));
}

} // namespace rondo::test
