// Tests ranks as processes that are killed or stopped: the error on every other rank.
#include <signal.h>

#include "member_job.h"
#include "ranks.h"
#include "session_cases.h"
#include "support/test.h"

namespace rondo::test {

using namespace std::chrono_literals;

TEST_CASE("a killed rank is named to all others, without waiting for a heartbeat") {
  for (const Host host : kHosts)
    for (const int size : {2, 4})
      for (int victim = 0; victim < size; ++victim) {
        INFO((host == Host::launcher ? "launcher" : "rank 0")
             << " hosts; rank " << victim << " of " << size << " is killed");
        Job job(host, size, "wait", kRare);
        job.startAll();
        job.at(victim).signal(SIGKILL);
        for (int rank = 0; rank < size; ++rank) {
          if (rank == victim) continue;
          const std::string line = job.at(rank).line(10s);
          INFO("rank " << rank << " says: " << line);
          const std::string who = std::to_string(victim);
          CHECK(startsWith(line, "failed peer_dead " + who + " rank " + who));
          CHECK(job.at(rank).end().value_or(-1) == 0);
        }
      }
}

TEST_CASE("a stopped rank is named to all others after three heartbeats") {
  for (const Host host : kHosts)
    for (const int victim : {0, 2}) {
      INFO((host == Host::launcher ? "launcher" : "rank 0")
           << " hosts; rank " << victim << " is stopped");
      Job job(host, 3, "wait", kOften);
      job.startAll();
      job.at(victim).signal(SIGSTOP);
      for (int rank = 0; rank < 3; ++rank) {
        if (rank == victim) continue;
        const std::string line = job.at(rank).line(20s);
        INFO("rank " << rank << " says: " << line);
        const std::string who = std::to_string(victim);
        CHECK(startsWith(line, "failed unresponsive " + who + " rank " + who));
      }
    }
}

// Proves: with RONDO_PATIENT no rank gives up another one that is stopped for longer than three
// heartbeats, and a killed rank is still named at once.
TEST_CASE("a patient job waits for a stopped rank, and still hears of a killed one") {
  std::map<std::string, std::string> patient = kOften;
  patient["RONDO_PATIENT"] = "1";
  for (const Host host : kHosts)
    for (const int victim : {0, 2}) {
      INFO((host == Host::launcher ? "launcher" : "rank 0")
           << " hosts; rank " << victim << " is stopped");
      Job job(host, 3, "wait", patient);
      job.startAll();
      job.at(victim).signal(SIGSTOP);
      std::this_thread::sleep_for(1500ms);
      job.at(victim).signal(SIGCONT);
      std::this_thread::sleep_for(300ms); // a failure would be known by now
      job.at(1).signal(SIGKILL);
      for (const int rank : {0, 2})
        CHECK(startsWith(job.at(rank).line(10s), "failed peer_dead 1 rank 1"));
    }
}

TEST_CASE("a rank that was stopped for two heartbeats goes on without an error") {
  for (const Host host : kHosts)
    for (const int victim : {0, 1}) {
      INFO((host == Host::launcher ? "launcher" : "rank 0")
           << " hosts; rank " << victim << " is stopped for a while");
      Job job(host, 3, "wait", kUsual);
      job.startAll();
      job.at(victim).signal(SIGSTOP);
      std::this_thread::sleep_for(2s);
      job.at(victim).signal(SIGCONT);
      std::this_thread::sleep_for(500ms); // a failure would be known by now
      for (int rank = 0; rank < 3; ++rank) job.at(rank).tell("go");
      for (int rank = 0; rank < 3; ++rank) {
        CHECK(job.at(rank).line() == "done");
        CHECK(job.at(rank).end().value_or(-1) == 0);
      }
    }
}

TEST_CASE("all ranks stopped together and woken together go on") {
  // Ctrl-Z in a terminal, or a closed laptop: all ranks are silent for the same reason.
  Job job(Host::rank_zero, 3, "wait", kOften);
  job.startAll();
  for (int rank = 0; rank < 3; ++rank) job.at(rank).signal(SIGSTOP);
  std::this_thread::sleep_for(2s);
  for (int rank = 0; rank < 3; ++rank) job.at(rank).signal(SIGCONT);
  std::this_thread::sleep_for(500ms);
  for (int rank = 0; rank < 3; ++rank) job.at(rank).tell("go");
  for (int rank = 0; rank < 3; ++rank) CHECK(job.at(rank).line() == "done");
}

// Proves: time in which a rank did not run does not count for its own deadline, when it waits for
// the hub (rank 0 hosts) and when it waits for other ranks (the launcher hosts).
TEST_CASE("a rank that was stopped while it waited for other ranks goes on") {
  std::map<Host, Job> jobs;
  for (const Host host : kHosts)
    jobs.emplace(std::piecewise_construct, std::tuple(host), std::tuple(host, 2, "wait", kRare));
  for (auto& [host, job] : jobs) job.start(1, {{"RONDO_INIT_TIMEOUT", "5"}});
  std::this_thread::sleep_for(500ms);
  for (auto& [host, job] : jobs) job.at(1).signal(SIGSTOP);
  std::this_thread::sleep_for(6500ms);
  for (auto& [host, job] : jobs) job.at(1).signal(SIGCONT);
  std::this_thread::sleep_for(300ms);
  for (auto& [host, job] : jobs) job.start(0);
  for (auto& [host, job] : jobs) {
    INFO((host == Host::launcher ? "launcher" : "rank 0") << " hosts");
    for (const int rank : {0, 1}) CHECK(job.at(rank).line() == "ready");
  }
}

TEST_CASE("ranks end one after the other, the host first") {
  for (const Host host : kHosts) {
    Job job(host, 3, "quit", kUsual);
    job.startAll();
    for (int rank = 0; rank < 3; ++rank) {
      job.at(rank).tell("go");
      CHECK(job.at(rank).line() == "done");
      CHECK(job.at(rank).end().value_or(-1) == 0);
    }
  }
}

TEST_CASE("a launcher that ends hands the control plane over with its whole state") {
  for (const int size : {2, 4}) {
    Job job(Host::launcher, size, "wait", kOften);
    job.startAll();
    job.endLaunch();
    std::this_thread::sleep_for(1500ms); // five heartbeats
    for (int rank = 0; rank < size; ++rank) job.at(rank).tell("go");
    for (int rank = 0; rank < size; ++rank) CHECK(job.at(rank).line() == "done");
    for (int rank = 0; rank < size; ++rank) CHECK(job.at(rank).end().value_or(-1) == 0);
  }
}

// Proves: a hub that does not have all ranks yet does not take the missing ones for unreachable.
TEST_CASE("two of eight ranks exchange while the other ranks are slow to follow a move") {
  Job job(Host::launcher, 8, "pair", kRare);
  job.startAll();
  for (int rank = 3; rank < 8; ++rank) job.at(rank).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms); // SIGSTOP does not stop all threads at once
  job.endLaunch();
  for (const int rank : {1, 2}) job.at(rank).tell("go");
  CHECK(job.at(1).line(300ms) == "");
  for (int rank = 3; rank < 8; ++rank) job.at(rank).signal(SIGCONT);
  for (const int rank : {1, 2}) CHECK(job.at(rank).line() == "done");
}

// Proves: ranks that are slow to follow a move are not taken for dead.
TEST_CASE("two of five ranks do not go on alone after a move that the others missed") {
  Job job(Host::launcher, 5, "agree", kRare);
  job.startAll();
  for (const int rank : {2, 3, 4}) job.at(rank).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms); // SIGSTOP does not stop all threads at once
  job.endLaunch();
  for (const int rank : {0, 1}) job.at(rank).tell("go");
  for (const int rank : {0, 1}) {
    const std::string line = job.at(rank).line();
    INFO("rank " << rank << " says: " << line);
    CHECK(startsWith(line, "error unresponsive"));
  }
}

// Proves: messages of one agreement cannot reach a communicator of another.
TEST_CASE("agreements before and after a move give communicators with different ids") {
  constexpr int kSize = 3;
  Job job(Host::launcher, kSize, "agree", kRare);
  job.startAll();
  const auto agreed = [&] {
    for (int rank = 0; rank < kSize; ++rank) job.at(rank).tell("go");
    const std::string first = job.at(0).line();
    for (int rank = 1; rank < kSize; ++rank) CHECK(job.at(rank).line() == first);
    CHECK(startsWith(first, "agreed"));
    return first;
  };
  const std::string before = agreed();
  job.endLaunch();
  CHECK(agreed() != before);
}

// Proves: only one part goes on. A rank that was stopped learns that the others go on without it,
// even if it calls shrink() after the hub has received its heartbeats again.
TEST_CASE("a rank that the others excluded while it was stopped gets no communicator") {
  const auto excluded = [&](Host host, const std::function<void(Job&)>& then) {
    Job job(host, 4, "agree", kUsual);
    job.startAll();
    job.at(3).signal(SIGSTOP);
    agree(job, {0, 1, 2});
    job.at(3).signal(SIGCONT);
    std::this_thread::sleep_for(1s); // until the hub receives its heartbeats again
    then(job);
    job.at(3).tell("go");
    const std::string line = job.at(3).line();
    INFO("rank 3 says: " << line);
    CHECK(startsWith(line, "error unresponsive"));
    CHECK(line.find("the other ranks go on without this one") != std::string::npos);
  };
  SECTION("and the others agree again") {
    excluded(Host::rank_zero, [&](Job& job) { agree(job, {0, 1, 2}); });
  }
  SECTION("and the others leave") {
    excluded(Host::rank_zero, [](Job& job) {
      for (const int rank : {0, 1, 2}) job.at(rank).hangUp();
      for (const int rank : {0, 1, 2}) CHECK(job.at(rank).end().value_or(-1) == 0);
    });
  }
  SECTION("and the control plane moves") {
    excluded(Host::launcher, [](Job& job) { job.endLaunch(); });
  }
  SECTION("and the host is killed") {
    excluded(Host::rank_zero, [&](Job& job) {
      job.at(0).signal(SIGKILL);
      agree(job, {1, 2});
    });
  }
}

// Proves: a rank whose process is stopped while it takes the control plane over does not end the
// job. Rank 4 is stopped at first, so that rank 1 waits for it.
TEST_CASE("a host dies and its successor is stopped while it takes over: the others agree") {
  Job job(Host::rank_zero, 5, "agree", kUsual);
  job.startAll();
  job.at(4).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(0).signal(SIGKILL);
  std::this_thread::sleep_for(500ms); // ranks 2 and 3 connect to rank 1
  job.at(1).signal(SIGSTOP);
  job.at(4).signal(SIGCONT);
  agree(job, {2, 3, 4});
}

// Proves: a rank that was skipped because it was stopped, for less than two heartbeats, does not go
// on alone when the others have ended.
TEST_CASE("a candidate was stopped for a fifth of a heartbeat while others replaced the host") {
  Job job(Host::rank_zero, 4, "agree", {{"RONDO_HEARTBEAT", "20"}});
  job.startAll();
  job.at(1).signal(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  job.at(0).signal(SIGKILL);
  agree(job, {2, 3});
  for (const int rank : {2, 3}) {
    job.at(rank).hangUp();
    CHECK(job.at(rank).end().value_or(-1) == 0);
  }
  job.at(1).signal(SIGCONT);
  job.at(1).tell("go");
  const std::string line = job.at(1).line();
  INFO("rank 1 says: " << line);
  CHECK(startsWith(line, "error unresponsive"));
}

// Proves: a rank that could not be reached is asked again when another one has left.
TEST_CASE("a host that was replaced and then ended does not count as missing when others leave") {
  for (const int size : {3, 4}) {
    INFO(size << " ranks");
    Job job(Host::rank_zero, size, "agree", kUsual);
    job.startAll();
    job.at(0).signal(SIGSTOP);
    for (int rank = 1; rank < size; ++rank) job.at(rank).tell("go");
    for (int rank = 1; rank < size; ++rank) CHECK(startsWith(job.at(rank).line(), "agreed"));
    job.at(0).signal(SIGCONT);
    job.at(0).tell("go");
    CHECK(startsWith(job.at(0).line(), "error unresponsive"));
    CHECK(job.at(0).end().value_or(-1) == 1);
    for (int rank = size - 1; rank > 1; --rank) {
      job.at(rank).hangUp();
      CHECK(job.at(rank).end().value_or(-1) == 0);
    }
    job.at(1).tell("go");
    const std::string line = job.at(1).line();
    INFO("rank 1 says: " << line);
    CHECK(startsWith(line, "agreed"));
  }
}

TEST_CASE("the control plane moves on as often as its host ends") {
  Job job(Host::launcher, 5, "quit", kRare);
  job.startAll();
  job.endLaunch();
  for (int rank = 0; rank < 3; ++rank) {
    std::this_thread::sleep_for(500ms); // a host that ends before all have joined counts as dead
    job.at(rank).tell("go");
    CHECK(job.at(rank).line() == "done");
    CHECK(job.at(rank).end().value_or(-1) == 0);
  }
  std::this_thread::sleep_for(500ms);
  job.at(3).signal(SIGKILL);
  const std::string line = job.at(4).line(10s);
  INFO("rank 4 says: " << line);
  CHECK(startsWith(line, "failed peer_dead 3 rank 3"));
}

TEST_CASE("a host that leaves and ends by _exit() has handed its control plane over") {
  Job job(Host::rank_zero, 5, "vanish", kRare);
  job.startAll();
  const auto vanish = [&](int rank) {
    job.at(rank).tell("go");
    CHECK(job.at(rank).line() == "done");
    CHECK(job.at(rank).end().value_or(-1) == 0);
  };
  SECTION("and the others are still supervised") {
    for (int rank = 0; rank < 3; ++rank) vanish(rank);
    job.at(3).signal(SIGKILL);
    const std::string line = job.at(4).line(10s);
    INFO("rank 4 says: " << line);
    CHECK(startsWith(line, "failed peer_dead 3 rank 3"));
  }
  SECTION("down to the last rank") {
    for (int rank = 0; rank < 4; ++rank) vanish(rank);
    CHECK(job.at(4).line(300ms) == "");
    vanish(4);
  }
}

TEST_CASE("a child that a rank forks may exit without harm to the rank") {
  // The child lacks its parent's threads, so memory that only they reach looks leaked there.
  std::map<std::string, std::string> environment = kOften;
  environment["ASAN_OPTIONS"] = "detect_leaks=0";
  for (const Host host : kHosts) {
    Job job(host, 3, "fork", environment);
    job.startAll();
    for (int rank = 0; rank < 3; ++rank) job.at(rank).tell("go");
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(job.at(rank).line() == "done");
      CHECK(job.at(rank).end().value_or(-1) == 0);
    }
  }
}

TEST_CASE("a launcher that is killed is named to all ranks") {
  Process host({kProgram, {"host"}, {{"RONDO_SOCKET_IFNAME", "lo"}}, -1});
  const UniqueId id = idOf(host.line());
  std::vector<Outcome> ends(3);
  std::atomic<int> met{0};
  std::thread killer([&] {
    while (met.load() < 3) std::this_thread::sleep_for(1ms);
    host.signal(SIGKILL);
  });
  const auto outcomes = runRanks(3, [&](int rank) {
    Options options = quickOptions();
    options.heartbeat = 60s;
    const auto session = bootstrap::Session::open(Rendezvous::uniqueId(id, rank, 3), options);
    ++met;
    expect(awaitFailure(*session, 10s), "the session fails");
    ends[static_cast<std::size_t>(rank)] = outcomeOf(session->failure());
  });
  met = 3; // also when a rank failed
  killer.join();
  CHECK(troubles(outcomes) == "");
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::peer_dead);
    CHECK(end.culprit == -1);
    CHECK(end.text.find("the process that made the unique id") != std::string::npos);
  }
}

} // namespace rondo::test
