// Tests sessions over TCP, by a unique id. The ranks are threads of this process.
#include <atomic>
#include <deque>
#include <span>

#include "bootstrap/process_jobs.h"
#include "bootstrap/unique_id.h"

#include "ranks.h"
#include "rondo/options.h"
#include "session_cases.h"
#include "support/descriptors.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

Meet byUniqueId(int size) {
  Options options = quickOptions();
  options.socket_interface = "lo";
  const UniqueId id = UniqueId::create(options);
  return [id, size](int rank) { return Rendezvous::uniqueId(id, rank, size); };
}

/// A unique id that ends with the case: other cases see a listener close when its ranks have
/// joined.
class Id {
 public:
  explicit Id(const Options& options) : id_(UniqueId::create(options)) {}
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id() { bootstrap::ProcessJobs::ofProcess().dismiss(bootstrap::IdContent::decode(id_).job); }
  Rendezvous as(int rank, int size) const { return Rendezvous::uniqueId(id_, rank, size); }

 private:
  const UniqueId id_;
};

} // namespace

TEST_CASE("ids that no rank has used yet share one listener, and each id gives its own job") {
  Options options = quickOptions();
  options.socket_interface = "lo";
  const Id first(options);
  const std::size_t before = openDescriptors();
  std::deque<Id> ids;
  for (int i = 0; i < 100; ++i) ids.emplace_back(options);
  CHECK(openDescriptors() == before);
  // Two of them at the same time, from the middle; then the first one.
  const auto outcomes = runRanks(4, [&](int thread) {
    const Id& id = ids[static_cast<std::size_t>(40 + thread % 2)];
    const auto session = bootstrap::Session::open(id.as(thread / 2, 2), quickOptions());
    const auto mine = static_cast<std::byte>(thread % 2);
    for (const auto& blob : session->allGather(std::span(&mine, 1), 20s))
      expect(blob == std::vector{mine}, "a rank of the same job");
  });
  CHECK(troubles(outcomes) == "");
  const auto alone =
      runRanks(1, [&](int) { bootstrap::Session::open(first.as(0, 1), quickOptions()); });
  CHECK(troubles(alone) == "");
  // The event loop closes connections after their ranks have left.
  for (const base::Deadline limit(20s); openDescriptors() > before && !limit.passed();)
    std::this_thread::sleep_for(1ms);
  CHECK(openDescriptors() <= before);
}

TEST_CASE("an id whose ranks have all left is refused at once while other ids are in use") {
  Options options = quickOptions();
  options.socket_interface = "lo";
  const Id used(options), other(options);
  const auto open = [&](int) { bootstrap::Session::open(used.as(0, 1), options); };
  REQUIRE(troubles(runRanks(1, open)) == "");
  const auto again = runRanks(1, open).front();
  CHECK(again.code == ErrorCode::init_failed);
  CHECK(again.text.find("has ended there") != std::string::npos);
}

// Proves: the hub's beats to those that have joined are not put off by later joins. Ranks come
// every 30 ms here, for 1.2 s; a beat is due every 66 ms, and a rank waits 600 ms for one.
TEST_CASE("tcp: ranks that join one shortly after the other meet") {
  constexpr int kRanks = 40;
  const Meet meet = byUniqueId(kRanks);
  const auto outcomes = runRanks(kRanks, [&](int rank) {
    std::this_thread::sleep_for(rank * 30ms);
    bootstrap::Session::open(meet(rank), quickOptions())->allGather({}, 20s);
  });
  CHECK(troubles(outcomes) == "");
}

// Proves: ranks do not wait in a new communicator for one that no longer wants it.
TEST_CASE("tcp: a rank whose shrink timed out does not hold up the others") {
  const Meet meet = byUniqueId(3);
  std::atomic<int> late{0};
  std::vector<Outcome> ends(2);
  const auto outcomes = runRanks(3, [&](int rank) {
    const SessionPtr session = bootstrap::Session::open(meet(rank), quickOptions());
    session->allGather({}, 10s);
    if (rank == 2) {
      late = outcomeOf([&] { session->survivors(100ms); }).code == ErrorCode::timeout ? 1 : 2;
      awaitFailure(*session, 10s);
      return;
    }
    while (late == 0) std::this_thread::sleep_for(1ms);
    const SessionPtr child = session->survivors(10s);
    ends[static_cast<std::size_t>(rank)] = outcomeOf([&] { child->allGather({}, 5s); });
    session->fail({ErrorCode::data, "the end of the test", -1}, {});
  });
  CHECK(troubles(outcomes) == "");
  CHECK(late == 1);
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::peer_dead);
    CHECK(end.culprit == 2);
  }
}

TEST_CASE("tcp: ranks agree on job, communicator and secret") { identityIsEqual(byUniqueId); }
TEST_CASE("tcp: allGather gives every blob in rank order") {
  allGatherGivesEveryBlobInRankOrder(byUniqueId);
}
TEST_CASE("tcp: split groups by color and orders by key") {
  splitGroupsByColorAndOrdersByKey(byUniqueId);
}
TEST_CASE("tcp: fail() from any rank reaches all") { failReachesAllWithOneFailure(byUniqueId); }
TEST_CASE("tcp: the first of many failures is everybody's") {
  firstOfManyFailuresIsSeenByAll(byUniqueId);
}
TEST_CASE("tcp: a failure stays within its communicator") {
  failureStaysWithinItsCommunicator(byUniqueId);
}
TEST_CASE("tcp: different calls are a mismatch") { differentCallsAreAMismatch(byUniqueId); }
TEST_CASE("tcp: different calls are found without a call that waits") {
  differentCallsAreFoundWithoutAnyStall(byUniqueId);
}
TEST_CASE("tcp: a timeout names the late rank") { timeoutNamesTheLateRank(byUniqueId); }
TEST_CASE("tcp: a rank that leaves early is named") {
  rankThatLeavesEarlyIsNamed(byUniqueId);
  rankThatLeavesBeforeItSendsIsNamed(byUniqueId);
}
TEST_CASE("tcp: leaving after the work harms no other rank") {
  leavingAfterTheWorkHurtsNobody(byUniqueId);
}
TEST_CASE("tcp: an exchange names missing ranks") { exchangeNamesMissingRanks(byUniqueId); }
TEST_CASE("tcp: a missing rank is listed on all that came") {
  missingRankIsListedOnAllThatCame(byUniqueId);
}
TEST_CASE("tcp: a recipe may be used again") { recipeMayBeUsedAgain(byUniqueId); }
TEST_CASE("tcp: split against exchange is a mismatch") {
  splitAgainstExchangeIsAMismatch(byUniqueId);
}
TEST_CASE("tcp: an oversized blob is refused") { oversizedBlobIsRefused(byUniqueId); }
TEST_CASE("tcp: the ranks that have not left agree on a communicator") {
  survivorsAreThoseThatHaveNotLeft(byUniqueId);
}

} // namespace rondo::test
