// Implements the cases of session_cases.h, on grids of ranks. Longer than 500 lines, because it is
// one list of independent cases that share their helpers.
#include "session_cases.h"

#include <set>

#include "bootstrap/ledger.h"
#include "ranks.h"
#include "rondo/communicator.h"
#include "support/test.h"

namespace rondo::test {

using bootstrap::Failure;
using bootstrap::Session;
using bootstrap::Stall;
using namespace std::chrono_literals;

namespace {

constexpr auto kLimit = 20s; // much longer than any case needs

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

/// Waits until all ranks have called it.
void barrier(Session& session) { session.allGather({}, kLimit); }

Stall stallIn(std::uint64_t sequence, const std::string& call, int peer) {
  return {sequence, peer, call + ": lane 0 step 3, tile 2"};
}

/// Enters calls up to this number, equal on all ranks.
void enterUpTo(Session& session, std::uint64_t sequence) {
  auto& calls = session.progress().calls;
  while (calls.entered() < sequence) calls.enter(calls.entered() + 1, 1000 + calls.entered());
}

/// The session's failure, as an outcome.
Outcome endOf(const Session& session) {
  expect(awaitFailure(session, kLimit), "the session fails");
  return outcomeOf(session.failure());
}

} // namespace

Options quickOptions() {
  Options options;
  options.init_timeout = 20s;
  options.heartbeat = 200ms;
  options.log_level = LogLevel::none;
  return options;
}

void identityIsEqual(const MakeMeet& make) {
  for (const int size : kGrid) {
    const Meet meet = make(size);
    struct Seen {
      std::uint64_t communicator, job;
      std::array<std::byte, 32> secret;
      bool operator==(const Seen&) const = default;
    };
    std::vector<Seen> seen(at(size));
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      expect(session->rank() == rank && session->size() == size, "rank and size as asked");
      expect(session->secret().present, "a secret");
      expect(session->bindAddress().port == 0 && session->bindAddress().loopback(),
             "a loopback address with port 0");
      expect(session->failedWord().load() == 0, "no failure");
      seen[at(rank)] = {session->communicator(), session->job(), session->secret().bytes};
      barrier(*session);
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
    for (const Seen& one : seen) CHECK(one == seen[0]);
  }
}

void allGatherGivesEveryBlobInRankOrder(const MakeMeet& make) {
  for (const int size : kGrid) {
    const Meet meet = make(size);
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      for (const std::size_t bytes : {0, 1, 7, 255, 4096, 16384})
        for (int repeat = 0; repeat < 3; ++repeat) {
          // Sizes differ by rank.
          const auto sizeAt = [&](int r) { return bytes < 16384 ? bytes + at(r) : bytes; };
          const auto byteAt = [&](int r) { return static_cast<std::byte>(17 * r + repeat); };
          const std::vector<std::byte> mine(sizeAt(rank), byteAt(rank));
          const auto all = session->allGather(mine, kLimit);
          expect(all.size() == at(size), "a blob of every rank");
          for (int r = 0; r < size; ++r)
            expect(all[at(r)] == std::vector<std::byte>(sizeAt(r), byteAt(r)),
                   "blob of rank " + std::to_string(r) + " at " + std::to_string(bytes));
        }
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
  }
}

void splitGroupsByColorAndOrdersByKey(const MakeMeet& make) {
  constexpr int kNone = Communicator::kNoColor;
  const std::vector<std::function<int(int)>> colors = {
      [](int) { return 0; }, [](int r) { return r % 2; }, [](int r) { return r; },
      [](int r) { return r % 3 == 0 ? kNone : 5; }, [](int) { return kNone; }};
  const std::vector<std::function<int(int)>> keys = {
      [](int) { return 0; }, [](int r) { return -r; }, [](int r) { return (r * 5) % 3; }};
  for (const int size : kGrid) {
    const Meet meet = make(size);
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      std::set<std::uint64_t> ids = {session->communicator()};
      for (const auto& color : colors)
        for (const auto& key : keys) {
          const SessionPtr child = session->split(color(rank), key(rank), kLimit);
          expect((child == nullptr) == (color(rank) == kNone), "a child unless without color");
          if (!child) continue;
          std::vector<int> members;
          for (int r = 0; r < size; ++r)
            if (color(r) == color(rank)) members.push_back(r);
          std::stable_sort(members.begin(), members.end(),
                           [&](int a, int b) { return key(a) < key(b); });
          expect(child->size() == static_cast<int>(members.size()), "the color's size");
          expect(members[at(child->rank())] == rank, "ordered by key, then rank");
          expect(ids.insert(child->communicator()).second, "an id of its own");
          const std::string mine =
              std::to_string(rank) + "/" + std::to_string(child->communicator());
          const auto all = child->allGather(bytesOf(mine), kLimit);
          for (std::size_t i = 0; i < members.size(); ++i)
            expect(all[i] == bytesOf(std::to_string(members[i]) + "/" +
                                     std::to_string(child->communicator())),
                   "the members' blobs, with one id");
          const SessionPtr grandchild = child->split(0, -child->rank(), kLimit);
          expect(grandchild->rank() == child->size() - 1 - child->rank(), "children split too");
        }
      barrier(*session);
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
  }
}

void failReachesAllWithOneFailure(const MakeMeet& make) {
  for (const int size : kGrid)
    for (int bad = 0; bad < size; ++bad) {
      const Meet meet = make(size);
      std::vector<Outcome> ends(at(size));
      const auto outcomes = runRanks(size, [&](int rank) {
        const SessionPtr session = Session::open(meet(rank), quickOptions());
        if (rank == bad) {
          const Failure seen = session->fail({ErrorCode::transport, "a cable was cut", bad});
          expect(seen.text == "a cable was cut", "fail() returns the failure");
        }
        ends[at(rank)] = endOf(*session);
        const Outcome later = outcomeOf([&] { barrier(*session); });
        expect(!later.ok && later.code == ErrorCode::transport, "exchanges throw the failure");
      });
      INFO(size << " ranks, rank " << bad << " fails");
      CHECK(troubles(outcomes) == "");
      for (const Outcome& end : ends) {
        CHECK(end.code == ErrorCode::transport);
        CHECK(end.text == "a cable was cut");
        CHECK(end.culprit == bad);
      }
    }
}

void firstOfManyFailuresIsSeenByAll(const MakeMeet& make) {
  for (const int size : kGrid) {
    const Meet meet = make(size);
    std::vector<Outcome> ends(at(size)), returned(at(size));
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      barrier(*session);
      returned[at(rank)] =
          outcomeOf(session->fail({ErrorCode::aborted, "stop says " + std::to_string(rank), rank}));
      ends[at(rank)] = endOf(*session);
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
    for (int rank = 0; rank < size; ++rank) {
      CHECK(ends[at(rank)].text == ends[0].text);
      CHECK(returned[at(rank)].text == ends[0].text);
      CHECK(ends[at(rank)].culprit == ends[0].culprit);
    }
  }
}

void failureStaysWithinItsCommunicator(const MakeMeet& make) {
  for (const int size : {2, 4, 7}) {
    const Meet meet = make(size);
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      const SessionPtr child = session->split(rank % 2, -rank, kLimit);
      if (rank == 0) child->fail({ErrorCode::aborted, "evens only", child->rank()});
      if (rank % 2 == 0) {
        const Outcome end = endOf(*child);
        expect(end.text == "evens only" && end.culprit == child->size() - 1,
               "the failure, in the child's ranks");
      }
      barrier(*session); // the parent still works
      if (rank % 2 == 1) {
        barrier(*child); // and so does the sibling
        expect(child->failedWord().load() == 0, "the sibling has not failed");
      }
      expect(session->failedWord().load() == 0, "the parent has not failed");
      barrier(*session);
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
  }
}

void differentCallsAreAMismatch(const MakeMeet& make) {
  for (const int size : {2, 3, 4, 8}) {
    const Meet meet = make(size);
    const int odd = size - 1;
    std::vector<Outcome> ends(at(size));
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      session->progress().describe = [](std::uint64_t signature, std::uint64_t sequence) {
        return "Call " + std::to_string(signature) + " #" + std::to_string(sequence);
      };
      // Equal calls are no mismatch, however far apart the ranks are.
      enterUpTo(*session, 400 + static_cast<std::uint64_t>(rank));
      session->stalled(stallIn(400, "Barrier #400", (rank + 1) % size));
      session->stalled(stallIn(0, "Send", (rank + 1) % size));
      barrier(*session);
      std::this_thread::sleep_for(20ms);
      expect(session->failedWord().load() == 0, "no mismatch yet");
      barrier(*session);
      enterUpTo(*session, 499);
      session->progress().calls.enter(500, rank == odd ? 78 : 77);
      enterUpTo(*session, 510); // and goes on without an error
      if (rank == 0) session->stalled(stallIn(510, "Barrier #510", odd));
      if (rank == odd) session->stalled(stallIn(510, "Barrier #510", 0));
      ends[at(rank)] = endOf(*session);
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
    for (const Outcome& end : ends) {
      CHECK(end.code == ErrorCode::mismatch);
      // The other named rank depends on which ranks have entered the call so far.
      CHECK(has(end.text, "rank " + std::to_string(odd) + " calls Call 78 #500"));
      CHECK(has(end.text, " calls Call 77 #500"));
      CHECK(end.text == ends[0].text);
    }
  }
}

void differentCallsAreFoundWithoutAnyStall(const MakeMeet& make) {
  for (const int size : {2, 5}) {
    const Meet meet = make(size);
    std::vector<Outcome> ends(at(size));
    std::atomic<int> others{0};
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      barrier(*session);
      // With the calls of only some ranks, the hub could name another rank as the odd one.
      while (rank == 1 && others.load() < size - 1) std::this_thread::sleep_for(1ms);
      // Too long ago to have its signature kept.
      enterUpTo(*session, 99);
      session->progress().calls.enter(100, rank == 1 ? 78 : 77);
      enterUpTo(*session, 10'000);
      ++others;
      ends[at(rank)] = endOf(*session);
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
    for (const Outcome& end : ends) {
      CHECK(end.code == ErrorCode::mismatch);
      CHECK(end.culprit == 1);
      CHECK(has(end.text, "rank 1 made a different call than rank 0"));
    }
  }
}

void timeoutNamesTheLateRank(const MakeMeet& make) {
  for (const int size : {2, 3, 4, 7})
    for (int late = 0; late < size; ++late) {
      const Meet meet = make(size);
      std::vector<Outcome> ends(at(size));
      const int reporter = (late + 1) % size;
      const auto outcomes = runRanks(size, [&](int rank) {
        const SessionPtr session = Session::open(meet(rank), quickOptions());
        session->progress().completed = 411;
        enterUpTo(*session, rank == late ? 411 : 412);
        barrier(*session);
        if (rank == reporter)
          session->fail({ErrorCode::timeout, "AllReduce #412 timed out after 2 s; details", -1},
                        stallIn(412, "AllReduce #412 (float sum, 8 elements)", late));
        ends[at(rank)] = endOf(*session);
      });
      INFO(size << " ranks, rank " << late << " is late");
      CHECK(troubles(outcomes) == "");
      for (const Outcome& end : ends) {
        CHECK(end.code == ErrorCode::timeout);
        CHECK(end.culprit == late);
        CHECK(end.text == "AllReduce #412 timed out after 2 s: rank " + std::to_string(late) +
                              " did not call it; details");
      }
    }
}

void rankThatLeavesEarlyIsNamed(const MakeMeet& make) {
  for (const int size : {2, 3, 5})
    for (const bool leaves_first : {false, true}) {
      const Meet meet = make(size);
      const int gone = size - 1;
      std::vector<Outcome> ends(at(size));
      std::atomic<int> stalls{0};
      const auto outcomes = runRanks(size, [&](int rank) {
        const SessionPtr session = Session::open(meet(rank), quickOptions());
        enterUpTo(*session, 6);
        barrier(*session);
        if (rank == gone) {
          while (!leaves_first && stalls.load() < size - 1) std::this_thread::sleep_for(1ms);
          ends[at(rank)] = {true, ErrorCode::data, "", -2};
          return;
        }
        if (leaves_first) std::this_thread::sleep_for(50ms);
        session->stalled(stallIn(7, "Barrier #7", gone));
        ++stalls;
        ends[at(rank)] = endOf(*session);
      });
      INFO(size << " ranks");
      CHECK(troubles(outcomes) == "");
      for (int rank = 0; rank < gone; ++rank) {
        CHECK(ends[at(rank)].code == ErrorCode::peer_dead);
        CHECK(ends[at(rank)].culprit == gone);
        CHECK(ends[at(rank)].text ==
              "rank " + std::to_string(gone) + " left without entering Barrier #7");
      }
    }
}

void rankThatLeavesBeforeItSendsIsNamed(const MakeMeet& make) {
  const Meet meet = make(3);
  std::vector<Outcome> ends(3);
  std::atomic<bool> left{false};
  const auto outcomes = runRanks(3, [&](int rank) {
    SessionPtr session = Session::open(meet(rank), quickOptions());
    enterUpTo(*session, 1); // a rank that has made a call waits for the hub when it leaves
    barrier(*session);
    if (rank == 2) {
      session.reset();
      left = true;
      ends[2] = {true, ErrorCode::data, "", -2};
      return;
    }
    while (!left.load()) std::this_thread::sleep_for(1ms);
    Stall stall = stallIn(0, "Send/Recv #3 (5 float)", 2);
    if (rank == 0) {
      // Its message may still have been in flight at the first report and at the next.
      for (int i = 0; i < 2; ++i) session->stalled(stall);
      std::this_thread::sleep_for(50ms);
      expect(session->failedWord().load() == 0, "no failure");
      stall.again = true;
      session->stalled(stall);
    }
    ends[at(rank)] = endOf(*session);
  });
  CHECK(troubles(outcomes) == "");
  for (int rank : {0, 1}) {
    CHECK(ends[at(rank)].code == ErrorCode::peer_dead);
    CHECK(ends[at(rank)].culprit == 2);
    CHECK(ends[at(rank)].text == "rank 2 left while rank 0 waits for it in Send/Recv #3");
  }
}

void leavingAfterTheWorkHurtsNobody(const MakeMeet& make) {
  for (const int size : {2, 3, 8}) {
    const Meet meet = make(size);
    const auto outcomes = runRanks(size, [&](int rank) {
      SessionPtr session = Session::open(meet(rank), quickOptions());
      enterUpTo(*session, 7);
      barrier(*session);
      if (rank % 2 == 1) return;
      std::this_thread::sleep_for(50ms);
      session->stalled(stallIn(7, "Barrier #7", 1)); // it entered before it left
      std::this_thread::sleep_for(50ms);
      expect(session->failedWord().load() == 0, "no failure");
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
  }
}

void exchangeNamesMissingRanks(const MakeMeet& make) {
  for (const int size : {2, 3, 5}) {
    const Meet meet = make(size);
    std::vector<Outcome> ends(at(size));
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      if (rank == 1) {
        expect(awaitFailure(*session, kLimit), "the late rank hears of it");
        ends[at(rank)] = outcomeOf(session->failure());
      } else {
        ends[at(rank)] = outcomeOf([&] { session->allGather({}, 1500ms); });
      }
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
    for (const Outcome& end : ends) {
      CHECK(end.code == ErrorCode::timeout);
      CHECK(end.culprit == 1);
      CHECK(has(end.text, "rank 1 of " + std::to_string(size) + " did not come"));
    }
  }
}

void missingRankIsListedOnAllThatCame(const MakeMeet& make) {
  for (const int size : {2, 3, 5, 8})
    for (const int missing : {1, size - 1}) {
      const Meet meet = make(size);
      const auto outcomes = runRanks(size, [&](int rank) {
        if (rank == missing) return;
        Options options = quickOptions();
        options.init_timeout =
            size <= 3 ? 1000ms : 2500ms; // for the other ranks to join, on a busy machine
        Session::open(meet(rank), options);
      });
      for (int rank = 0; rank < size; ++rank) {
        if (rank == missing) continue;
        INFO(size << " ranks, rank " << missing << " missing, seen by " << rank);
        CHECK_FALSE(outcomes[at(rank)].ok);
        CHECK(outcomes[at(rank)].code == ErrorCode::init_failed);
        CHECK(has(outcomes[at(rank)].text, "rank " + std::to_string(missing) + " of " +
                                               std::to_string(size) + " did not come"));
      }
    }
}

void recipeMayBeUsedAgain(const MakeMeet& make) {
  for (const int size : {1, 2, 3}) {
    const Meet meet = make(size);
    const auto outcomes = runRanks(size, [&](int rank) {
      std::vector<SessionPtr> sessions;
      std::set<std::uint64_t> ids;
      for (int i = 0; i < 3; ++i) {
        sessions.push_back(Session::open(meet(rank), quickOptions()));
        expect(ids.insert(sessions.back()->communicator()).second, "communicators of their own");
      }
      for (auto& session : sessions) barrier(*session);
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
  }
}

void splitAgainstExchangeIsAMismatch(const MakeMeet& make) {
  for (const int size : {2, 3, 5}) {
    const Meet meet = make(size);
    std::vector<Outcome> ends(at(size));
    const auto outcomes = runRanks(size, [&](int rank) {
      const SessionPtr session = Session::open(meet(rank), quickOptions());
      ends[at(rank)] = outcomeOf([&] {
        if (rank == 0) session->split(0, 0, kLimit);
        else session->allGather(bytesOf("8 bytes!"), kLimit);
      });
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
    for (const Outcome& end : ends) {
      CHECK_FALSE(end.ok);
      CHECK(end.code == ErrorCode::mismatch);
    }
  }
}

void oversizedBlobIsRefused(const MakeMeet& make) {
  const Meet meet = make(2);
  const auto outcomes = runRanks(2, [&](int rank) {
    const SessionPtr session = Session::open(meet(rank), quickOptions());
    const std::vector<std::byte> large(bootstrap::kBlobBytes + 1);
    const Outcome refused = outcomeOf([&] { session->allGather(large, kLimit); });
    expect(!refused.ok && refused.code == ErrorCode::invalid_argument, "it is refused");
    barrier(*session); // and the session goes on
  });
  CHECK(troubles(outcomes) == "");
}

// Proves: the ranks agree on those that have not left, as often as they like, also if the
// communicator has failed; a rank that does not come is waited for until the limit.
void survivorsAreThoseThatHaveNotLeft(const MakeMeet& make) {
  for (const int size : kGrid) {
    const Meet meet = make(size);
    std::vector<std::uint64_t> first(at(size)), second(at(size));
    const auto outcomes = runRanks(size, [&](int rank) {
      SessionPtr session = Session::open(meet(rank), quickOptions());
      barrier(*session);
      first[at(rank)] = session->survivors(kLimit)->communicator();
      if (rank == 0 && size > 1) session->fail({ErrorCode::aborted, "for the test", 0}, {});
      if (size > 1) expect(awaitFailure(*session, kLimit), "the session fails");
      if (rank % 3 == 1) return session.reset();
      const SessionPtr left = session->survivors(kLimit);
      int lower = 0, all = 0;
      for (int other = 0; other < size; ++other) {
        if (other % 3 == 1) continue;
        ++all;
        lower += other < rank ? 1 : 0;
      }
      expect(left->size() == all && left->rank() == lower, "the ranks that have not left");
      const auto mine = static_cast<std::byte>(rank);
      const auto blobs = left->allGather(std::span(&mine, 1), kLimit);
      expect(blobs[at(lower)][0] == mine, "the own blob");
      second[at(rank)] = left->communicator();
    });
    INFO(size << " ranks");
    CHECK(troubles(outcomes) == "");
    for (int rank = 0; rank < size; ++rank) {
      CHECK(first[at(rank)] == first[0]);
      if (rank % 3 != 1) CHECK(second[at(rank)] == second[0]);
      CHECK(first[at(rank)] != second[0]);
    }
  }
  const Meet meet = make(2);
  const auto outcomes = runRanks(2, [&](int rank) {
    const SessionPtr session = Session::open(meet(rank), quickOptions());
    if (rank == 0) {
      const Outcome late = outcomeOf([&] { session->survivors(100ms); });
      expect(late.code == ErrorCode::timeout, "a timeout: " + late.text);
    }
    barrier(*session);
  });
  CHECK(troubles(outcomes) == "");
}

} // namespace rondo::test
