// Test cases for every kind of session. They run for threads in one process and for TCP.
#pragma once

#include <functional>
#include <memory>

#include "bootstrap/session.h"

namespace rondo::test {

using SessionPtr = std::unique_ptr<bootstrap::Session>;
/// Makes the rendezvous of one job: a function from rank to rendezvous.
using Meet = std::function<Rendezvous(int rank)>;
using MakeMeet = std::function<Meet(int size)>;

inline constexpr int kGrid[] = {1, 2, 3, 4, 5, 7, 8};

Options quickOptions();

void identityIsEqual(const MakeMeet& make);
void allGatherGivesEveryBlobInRankOrder(const MakeMeet& make);
void splitGroupsByColorAndOrdersByKey(const MakeMeet& make);
void failReachesAllWithOneFailure(const MakeMeet& make);
void firstOfManyFailuresIsSeenByAll(const MakeMeet& make);
void failureStaysWithinItsCommunicator(const MakeMeet& make);
void differentCallsAreAMismatch(const MakeMeet& make);
/// Not for threads of one process: without a control thread no comparison runs by itself.
void differentCallsAreFoundWithoutAnyStall(const MakeMeet& make);
void timeoutNamesTheLateRank(const MakeMeet& make);
void rankThatLeavesEarlyIsNamed(const MakeMeet& make);
void rankThatLeavesBeforeItSendsIsNamed(const MakeMeet& make);
void leavingAfterTheWorkHurtsNobody(const MakeMeet& make);
void exchangeNamesMissingRanks(const MakeMeet& make);
void missingRankIsListedOnAllThatCame(const MakeMeet& make);
void recipeMayBeUsedAgain(const MakeMeet& make);
void splitAgainstExchangeIsAMismatch(const MakeMeet& make);
void oversizedBlobIsRefused(const MakeMeet& make);
void survivorsAreThoseThatHaveNotLeft(const MakeMeet& make);

} // namespace rondo::test
