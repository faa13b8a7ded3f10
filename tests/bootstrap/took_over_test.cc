// Tests a hub that took over. The test plays the ranks that connect to it.
#include "bootstrap/hub.h"

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bootstrap/newcomer.h"
#include "bootstrap/standby.h"
#include "raw_member.h"
#include "rondo/communicator.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace bootstrap;
using namespace std::chrono_literals;
using frames::Type;

/// The hub of a job with two ranks, which were sent here.
struct Site {
  Site() : Site([](Hub::Settings&) {}) {}
  template <class Change>
  explicit Site(Change change) {
    settings.address = net::SocketAddress::parse("127.0.0.1:0", "");
    settings.secret = net::Secret::random();
    settings.job = 4711;
    settings.size = 2;
    settings.succession = Hub::Succession{0, 4711, {true, true}, {true, true}};
    change(settings);
    hub = std::make_unique<Hub>(settings, [] {});
  }
  ~Site() {
    net::EventLoop::get()->call([&] { hub.reset(); }); // there it waits for no rank
  }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  Membership::Settings member(int rank) const {
    Membership::Settings member;
    member.hub = hub->address();
    member.secret = settings.secret;
    member.job = settings.job;
    member.rank = rank;
    member.size = settings.size;
    member.deadline = base::Clock::now() + 20s;
    return member;
  }

  Hub::Settings settings;
  std::unique_ptr<Hub> hub;
};

/// The same, but the old hub died or fell silent. `change` may change the settings.
std::unique_ptr<Site> replacement(std::chrono::milliseconds spread,
                                  const std::function<void(Hub::Settings&)>& change = {}) {
  return std::make_unique<Site>([&](Hub::Settings& with) {
    with.succession->standby = std::make_shared<Standby>(
        Standby::Settings{with.address, with.secret, with.job, with.size});
    with.succession->spread = spread;
    if (change) change(with);
  });
}

/// Both ranks' communicator.
constexpr std::uint64_t kCommunicator = 99;

/// The rank connects and describes that communicator.
std::unique_ptr<RawMember> come(const Site& site, int rank) {
  auto member = std::make_unique<RawMember>(site.member(rank));
  member->join();
  member->frame(Type::roster, frames::Roster{kCommunicator, 2, 0, {0, 1}});
  member->frame(Type::settled, RawMember::Raw{});
  return member;
}

/// A call in which rank 0 waits for rank 1.
const Stall kBarrier{7, 1, "Barrier #7"};

/// The rank's call has made no progress until its timeout.
void timesOut(RawMember& rank) {
  const Failure failure{ErrorCode::timeout, "Barrier #7 timed out; details", 1};
  rank.frame(Type::fail, frames::Fail{kCommunicator, failure, kBarrier, {}});
}

} // namespace

// Proves: a rank that died is not taken for one that had left, whichever rank connected first.
TEST_CASE("a rank dies before another one has described their communicator: its death is known") {
  Site site;
  {
    RawMember dying(site.member(1));
    dying.join();
    REQUIRE(dying.counted());
  }
  const auto failure = come(site, 0)->failureOf(kCommunicator);
  REQUIRE(failure);
  INFO(failure->text);
  CHECK(failure->code == ErrorCode::peer_dead);
  CHECK(failure->culprit == 1);
}

// Proves: the old hub has told which calls a rank entered before it left, so the new one names it
// to a rank that waits for it in a later call, and not in an earlier one.
TEST_CASE("a rank waits for one that left before the hub moved: it is named if it left too early") {
  for (const bool early : {true, false}) {
    Site site([&](Hub::Settings& with) {
      with.succession->expected = {true, false};
      with.succession->departed = {{kCommunicator, 1, {early ? 6u : 7u, 6}}};
    });
    const auto first = come(site, 0);
    first->frame(Type::stalled, frames::Stalled{kCommunicator, kBarrier});
    if (!early) timesOut(*first);
    const auto failure = first->failureOf(kCommunicator);
    REQUIRE(failure);
    CHECK(failure->code == (early ? ErrorCode::peer_dead : ErrorCode::timeout));
    if (early) CHECK(failure->text == "rank 1 left without entering Barrier #7");
    CHECK(failure->culprit == 1);
  }
}

// Proves: if the old hub has not told it, the new one does not take such a rank for one that left
// too early.
TEST_CASE("a rank waits for one that left before the hub moved: that one is not named dead") {
  Site site;
  const auto first = come(site, 0);
  first->frame(Type::stalled, frames::Stalled{kCommunicator, kBarrier});
  RawMember second(site.member(1));
  second.join();
  second.frame(Type::settled, RawMember::Raw{});
  REQUIRE(second.counted());
  timesOut(*first);
  const auto failure = first->failureOf(kCommunicator);
  REQUIRE(failure);
  CHECK(failure->code == ErrorCode::timeout);
  CHECK(failure->text == "Barrier #7 timed out: rank 1 left, and may not have called it; details");
}

// Proves: a rank that leaves closes its connections, which another rank may report before the hub
// hears that the rank has left. The hub does not then say that a link between live ranks broke.
TEST_CASE("a rank is reported lost, and then settles without their communicator: it has left") {
  Site site;
  RawMember second(site.member(1));
  second.join();
  REQUIRE(second.counted());
  const auto first = come(site, 0);
  const Failure lost{ErrorCode::peer_dead, "rank 1 closed the connection", 1};
  first->frame(Type::fail, frames::Fail{kCommunicator, lost, {}, {}});
  std::this_thread::sleep_for(50ms); // if the hub hears of the end first, nothing is tested
  second.frame(Type::settled, RawMember::Raw{});
  const auto failure = first->failureOf(kCommunicator);
  REQUIRE(failure);
  CHECK(failure->text == "rank 1 closed the connection");
  CHECK(failure->code == ErrorCode::peer_dead);
  CHECK(failure->culprit == 1);
}

// Proves: a new hub waits for ranks that come late. It waits longer if it replaces a dead hub,
// because a rank may first have to give up a hub that moved (three seconds). It waits even longer
// if it replaces a silent hub, because each rank counts from the last message that it got.
TEST_CASE("a rank comes late to a new hub, but in time: it is still a member") {
  struct Late {
    std::function<std::unique_ptr<Site>()> start;
    std::chrono::milliseconds after;
  };
  const std::vector<Late> all{{[] { return std::make_unique<Site>(); }, 2s}, // of 3 s
                              {[] { return replacement(0s); }, 3100ms},      // of 4 s
                              {[] { return replacement(6s); }, 5s}};         // of 10 s
  for (const Late& late : all) {
    INFO("after " << late.after.count() << " ms");
    const auto site = late.start();
    const auto began = base::Clock::now();
    const auto first = come(*site, 0);
    std::this_thread::sleep_until(began + late.after);
    {
      const auto second = come(*site, 1);
      REQUIRE(second->counted());
    }
    const auto failure = first->failureOf(kCommunicator);
    REQUIRE(failure);
    INFO(failure->text);
    CHECK(failure->code == ErrorCode::peer_dead); // it died after it had come
    CHECK(failure->culprit == 1);
  }
}

// Proves: a new hub does not wait for ever for a rank that lives, and tells it so before the others
// go on.
TEST_CASE("a rank that lives does not come to a new hub: it is told that the others go on") {
  std::shared_ptr<Standby> other;
  const auto site = replacement(200ms, [&](Hub::Settings& with) {
    other = std::make_shared<Standby>(
        Standby::Settings{with.address, with.secret, with.job, with.size});
    with.succession->standbys = {{1, other->address()}};
  });
  const auto first = come(*site, 0);
  const auto failure = first->failureOf(kCommunicator);
  REQUIRE(failure);
  INFO(failure->text);
  CHECK(failure->code == ErrorCode::unresponsive);
  CHECK(failure->culprit == 1);
  bool told = false;
  net::EventLoop::get()->call([&] { told = other->excluded(1); });
  CHECK(told);
}

// Proves: also a rank that is not one of the eight candidates can ask all ranks whether they live,
// when the hub moves to it.
TEST_CASE("a rank that gets the offer of a hub is told where all ranks listen") {
  constexpr int kRanks = 12;
  Site site([](Hub::Settings& with) {
    with.size = kRanks;
    with.succession.reset();
  });
  std::vector<std::unique_ptr<RawMember>> members;
  for (int rank = 0; rank < kRanks; ++rank) {
    members.push_back(std::make_unique<RawMember>(site.member(rank)));
    const auto port = std::to_string(10'000 + rank);
    const auto listener = net::SocketAddress::parse("127.0.0.1:" + port, "");
    members.back()->frame(Type::join, frames::Join{60'000, false, false, 0, listener});
  }
  REQUIRE(members[9]->knows(8)); // the candidates
  for (int rank = 0; rank < kRanks; ++rank) {
    const int color = rank < 9 ? Communicator::kNoColor : 0;
    members[static_cast<std::size_t>(rank)]->frame(
        Type::gather, frames::Gather{worldId(4711, kRanks), 0, true, encodeSplit(color, rank)});
  }
  REQUIRE(members[9]->heard(Type::gathered)); // ranks 9 to 11 have a communicator
  site.hub->handOver();
  CHECK(members[9]->knows(kRanks));
}

// Proves: a hub that took over, whose listener stays open for late ranks, keeps no newcomers.
TEST_CASE("a newcomer that comes to a hub that took over is refused") {
  Site site;
  const auto error = caught([&] {
    Newcomer({site.settings.job, site.hub->address(), site.settings.secret}, 20s, false).wait();
  });
  CHECK(says(error, ErrorCode::init_failed, {"have met without it"}));
}

} // namespace rondo::test
