// Tests sessions whose ranks are threads of one process.
#include "bootstrap/local_group.h"

#include <atomic>

#include "ranks.h"
#include "session_cases.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

Meet inProcess(int size) {
  const Rendezvous group = Rendezvous::inProcess(size);
  return [group](int rank) { return group.as(rank); };
}

} // namespace

TEST_CASE("in process: ranks agree on job, communicator and secret") { identityIsEqual(inProcess); }
TEST_CASE("in process: allGather gives every blob in rank order") {
  allGatherGivesEveryBlobInRankOrder(inProcess);
}
TEST_CASE("in process: split groups by color and orders by key") {
  splitGroupsByColorAndOrdersByKey(inProcess);
}
TEST_CASE("in process: fail() from any rank reaches all") {
  failReachesAllWithOneFailure(inProcess);
}
TEST_CASE("in process: the first of many failures is everybody's") {
  firstOfManyFailuresIsSeenByAll(inProcess);
}
TEST_CASE("in process: a failure stays within its communicator") {
  failureStaysWithinItsCommunicator(inProcess);
}
TEST_CASE("in process: different calls are a mismatch") { differentCallsAreAMismatch(inProcess); }
TEST_CASE("in process: a timeout names the late rank") { timeoutNamesTheLateRank(inProcess); }
TEST_CASE("in process: a rank that leaves early is named") {
  rankThatLeavesEarlyIsNamed(inProcess);
  rankThatLeavesBeforeItSendsIsNamed(inProcess);
}
TEST_CASE("in process: leaving after the work harms no other rank") {
  leavingAfterTheWorkHurtsNobody(inProcess);
}
TEST_CASE("in process: an exchange names missing ranks") { exchangeNamesMissingRanks(inProcess); }
TEST_CASE("in process: a missing rank is listed on all that came") {
  missingRankIsListedOnAllThatCame(inProcess);
}
TEST_CASE("in process: a recipe may be used again") { recipeMayBeUsedAgain(inProcess); }
TEST_CASE("in process: split against exchange is a mismatch") {
  splitAgainstExchangeIsAMismatch(inProcess);
}
TEST_CASE("in process: an oversized blob is refused") { oversizedBlobIsRefused(inProcess); }
TEST_CASE("in process: the ranks that have not left agree on a communicator") {
  survivorsAreThoseThatHaveNotLeft(inProcess);
}

TEST_CASE("in process: one board for all ranks") {
  const Meet meet = inProcess(3);
  std::vector<std::shared_ptr<base::Board>> boards(3);
  const auto outcomes = runRanks(3, [&](int rank) {
    boards[static_cast<std::size_t>(rank)] =
        bootstrap::Session::open(meet(rank), quickOptions())->board();
  });
  CHECK(troubles(outcomes) == "");
  CHECK(boards[0] != nullptr);
  CHECK(boards[0] == boards[1]);
  CHECK(boards[0] == boards[2]);
}

TEST_CASE("in process: a rank that is inside already is refused") {
  const Rendezvous group = Rendezvous::inProcess(2);
  std::vector<Outcome> first(1);
  std::atomic<int> returned{0};
  std::thread waiting([&] {
    first[0] = outcomeOf([&] { bootstrap::Session::open(group.as(1), quickOptions()); });
    ++returned;
  });
  // It is not known which call is first and waits; both end in the same way.
  Outcome second{true, ErrorCode::data, "", -2};
  std::thread other([&] {
    second = outcomeOf([&] { bootstrap::Session::open(group.as(1), quickOptions()); });
    ++returned;
  });
  while (returned.load() == 0) std::this_thread::sleep_for(1ms); // the refused call
  const Outcome zero = outcomeOf([&] { bootstrap::Session::open(group.as(0), quickOptions()); });
  waiting.join();
  other.join();
  CHECK(zero.ok);
  CHECK(first[0].ok != second.ok);
  CHECK((first[0].ok ? second : first[0]).code == ErrorCode::invalid_argument);
}

TEST_CASE("rendezvous refuse invalid ranks and sizes") {
  for (const int size : {0, -1, (1 << 20) + 1}) {
    INFO(size);
    CHECK(outcomeOf([&] { Rendezvous::inProcess(size); }).code == ErrorCode::invalid_argument);
    CHECK(outcomeOf([&] { Rendezvous::uniqueId({}, 0, size); }).code ==
          ErrorCode::invalid_argument);
  }
  for (const int rank : {-1, 3, 4}) {
    INFO(rank);
    CHECK(outcomeOf([&] { Rendezvous::inProcess(3).as(rank); }).code ==
          ErrorCode::invalid_argument);
    CHECK(outcomeOf([&] { Rendezvous::uniqueId({}, rank, 3); }).code ==
          ErrorCode::invalid_argument);
  }
  CHECK(outcomeOf([&] { Rendezvous::uniqueId({}, 0, 3).as(1); }).code ==
        ErrorCode::invalid_argument);
}

} // namespace rondo::test
