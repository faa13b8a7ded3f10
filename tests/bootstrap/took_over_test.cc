// Tests a hub that took over. The test plays the ranks that connect to it.
#include "bootstrap/hub.h"
#include "bootstrap/newcomer.h"
#include "bootstrap/standby.h"
#include "raw_member.h"
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

/// The same, but the old hub died or fell silent.
struct Replacement : Site {
  explicit Replacement(std::chrono::milliseconds spread)
      : Site([&](Hub::Settings& with) {
          with.succession->standby = std::make_shared<Standby>(
              Standby::Settings{with.address, with.secret, with.job, with.size});
          with.succession->spread = spread;
        }) {}
};

} // namespace

// Proves: a rank that died is not taken for one that had left, whichever rank connected first.
TEST_CASE("a rank dies before another one has described their communicator: its death is known") {
  constexpr std::uint64_t kCommunicator = 99;
  Site site;
  {
    RawMember dying(site.member(1));
    dying.join();
    REQUIRE(dying.counted());
  }
  RawMember other(site.member(0));
  other.join();
  other.frame(Type::roster, frames::Roster{kCommunicator, 2, 0, {0, 1}});
  other.frame(Type::settled, RawMember::Raw{});
  const auto failure = other.failureOf(kCommunicator);
  REQUIRE(failure);
  INFO(failure->text);
  CHECK(failure->code == ErrorCode::peer_dead);
  CHECK(failure->culprit == 1);
}

// Proves: a hub that replaces a silent one waits longer for the ranks that have not yet given up
// the silent one. Each counts from the last message that it got.
TEST_CASE("a rank gives up a silent hub later than another one: it is still a member") {
  constexpr std::uint64_t kCommunicator = 99;
  Replacement site(6s);
  RawMember first(site.member(0));
  first.join();
  first.frame(Type::roster, frames::Roster{kCommunicator, 2, 0, {0, 1}});
  first.frame(Type::settled, RawMember::Raw{});
  std::this_thread::sleep_for(5s);
  {
    RawMember second(site.member(1));
    second.join();
    second.frame(Type::roster, frames::Roster{kCommunicator, 2, 0, {0, 1}});
    second.frame(Type::settled, RawMember::Raw{});
    REQUIRE(second.counted());
  }
  const auto failure = first.failureOf(kCommunicator);
  REQUIRE(failure);
  INFO(failure->text);
  CHECK(failure->code == ErrorCode::peer_dead); // it died after it had come
  CHECK(failure->culprit == 1);
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
