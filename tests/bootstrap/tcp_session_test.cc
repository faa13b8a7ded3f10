// Sessions over TCP, by a unique id; the ranks are threads of this process.
#include "ranks.h"
#include "rondo/options.h"
#include "session_cases.h"
#include "support/test.h"

using namespace rondo;
using namespace rondo::test;

namespace {

Meet byUniqueId(int size) {
  Options options = quickOptions();
  options.socket_interface = "lo";
  const UniqueId id = UniqueId::create(options);
  return [id, size](int rank) { return Rendezvous::uniqueId(id, rank, size); };
}

} // namespace

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
TEST_CASE("tcp: leaving after the work hurts nobody") {
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
