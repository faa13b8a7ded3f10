// Tests that the ranks that live go on after any rank died, also the one that hosts the control
// plane: every call ends and names the dead rank, shrink() makes a communicator, and its results
// are right.
#include <signal.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "job.h"
#include "net/tls.h"
#include "support/data_files.h"
#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

unsigned long allOf(int ranks) { return (1ul << ranks) - 1; }

std::string environment(const std::string& transport) {
  return "RONDO_TRANSPORT=" + transport + " RONDO_TIMEOUT=30 RONDO_INIT_TIMEOUT=30";
}

/// Kills ranks, and requires that the others name one of them and then reduce together.
void killAndRecover(Job& job, unsigned long& left, const std::vector<int>& victims) {
  job.endings.clear();
  const long long struck = now();
  for (const int victim : victims) {
    REQUIRE(::kill(job.pids[victim], SIGKILL) == 0);
    left &= ~(1ul << victim);
  }
  const bool recovered = job.recovered(left);
  INFO(job.refusals());
  REQUIRE(recovered);
  for (const auto& [rank, recovery] : job.recoveries) {
    if ((left >> rank & 1) == 0) continue;
    INFO("rank " << rank << ":" << job.endings[rank].text);
    CHECK(recovery.size == std::popcount(left));
    CHECK(job.endings[rank].code == "peer_dead");
    CHECK(job.endings[rank].culprit >= 0);
    CHECK(seconds(recovery.known - struck) < 4 * kSlower);
  }
}

} // namespace

// Proves: the control plane outlives the process of rank 0, which hosts it.
TEST_CASE("kill -9 of the host of the control plane: the others name it, shrink and reduce") {
  for (const char* transport : {"shm", "tcp"})
    for (const int ranks : {2, 3, 4, 5, 7, 8})
      for (const char* how : {"agree", "exclude"}) {
        if (!kWholeGrid && ranks > 4 && std::string(how) == "exclude") continue;
        Job job(
            Job::withoutLauncher(ranks, environment(transport), std::string("recovering ") + how),
            ranks);
        INFO(transport << ", " << ranks << " ranks, " << how);
        REQUIRE(job.ready());
        unsigned long left = allOf(ranks);
        killAndRecover(job, left, {0});
        for (const auto& [rank, ending] : job.endings) {
          if (rank == 0) continue;
          CHECK(ending.culprit == 0);
          CHECK(ending.text.find("rank 0") != std::string::npos);
        }
      }
}

// Proves: a host that leaves in an orderly way passes the control plane on also when no
// communicator works any more, because the others may shrink theirs.
TEST_CASE("the host ends after a communicator has failed, and the others shrink it") {
  for (const char* transport : {"shm", "tcp"})
    for (const int ranks : {2, 3, 4, 5}) {
      Job job(Job::withoutLauncher(ranks, environment(transport), "recovering abandon"), ranks);
      INFO(transport << ", " << ranks << " ranks");
      REQUIRE(job.ready());
      const bool recovered = job.recovered(allOf(ranks) & ~1ul);
      INFO(job.refusals());
      CHECK(recovered);
      for (const auto& [rank, ending] : job.endings) {
        CHECK(ending.code == "aborted");
        CHECK(ending.culprit == 0);
      }
    }
}

// Proves: a host that leaves tells the next one which calls it has entered, so that a rank that
// waits for it gets an error at once.
TEST_CASE("the host leaves a communicator and lives on: the next call of the others names it") {
  for (const char* transport : {"shm", "tcp"})
    for (const int ranks : {2, 4}) {
      Job job(Job::withoutLauncher(ranks, environment(transport), "endless_allreduce 10 leave"),
              ranks);
      INFO(transport << ", " << ranks << " ranks");
      REQUIRE(job.ready());
      REQUIRE(job.ended(static_cast<std::size_t>(ranks) - 1));
      for (const auto& [rank, ending] : job.endings) {
        INFO(ending.text);
        CHECK(ending.code == "peer_dead");
        CHECK(ending.culprit == 0);
      }
    }
}

// Proves: each new host can die in its turn; the last rank works alone.
TEST_CASE("one host after the other is killed, down to one rank") {
  for (const char* transport : {"shm", "tcp"}) {
    constexpr int kRanks = 5;
    Job job(Job::withoutLauncher(kRanks, environment(transport), "recovering agree"), kRanks);
    INFO(transport);
    REQUIRE(job.ready());
    unsigned long left = allOf(kRanks);
    for (int victim = 0; victim + 1 < kRanks; ++victim) killAndRecover(job, left, {victim});
  }
}

// Proves: a rank that takes the control plane over serves it with TLS, as the first host did.
TEST_CASE("with RONDO_TLS=1, one host after the other is killed, and the others shrink") {
  if (const std::string why = net::tlsMissing(); !why.empty()) {
    WARN("skipped: " << why);
    return;
  }
  constexpr int kRanks = 4;
  const TemporaryFolder folder;
  const std::string secret = folder.file("secret");
  std::ofstream(secret) << std::string(32, 's');
  std::filesystem::permissions(
      secret, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::string encrypted = environment("tcp") + " RONDO_TLS=1 RONDO_SECRET_FILE=" + secret;
  Job job(Job::withoutLauncher(kRanks, encrypted, "recovering agree"), kRanks);
  REQUIRE(job.ready());
  unsigned long left = allOf(kRanks);
  for (int victim = 0; victim + 1 < kRanks; ++victim) killAndRecover(job, left, {victim});
}

// Proves: the first successors may be dead too, and a rank that did not notice them does not wait.
TEST_CASE("the host and other ranks are killed at once") {
  const std::vector<std::vector<int>> groups = {{0, 1}, {1, 0}, {0, 3}, {0, 1, 2}, {0, 1, 3, 4}};
  for (const char* transport : {"shm", "tcp"})
    for (const auto& victims : groups) {
      constexpr int kRanks = 5;
      Job job(Job::withoutLauncher(kRanks, environment(transport), "recovering agree"), kRanks);
      INFO(transport << ", " << victims.size() << " are killed");
      REQUIRE(job.ready());
      unsigned long left = allOf(kRanks);
      killAndRecover(job, left, victims);
    }
}

// Proves: a communicator of ranks of which one is dead does not wait for it, also if it was already
// dead when the new host began.
TEST_CASE("a shrink that excludes only one of two dead ranks ends with the death of the other") {
  constexpr int kRanks = 5;
  Job job(Job::withoutLauncher(kRanks, environment("tcp"), "recovering late"), kRanks);
  REQUIRE(job.ready());
  for (const int victim : {0, 1}) REQUIRE(::kill(job.pids[victim], SIGKILL) == 0);
  job.until([&] { return job.recoveries.size() == 3; });
  INFO(job.refusals());
  for (const int rank : {2, 3, 4}) {
    // The number is that of the communicator that the rank shrinks, not of the one it does not get.
    const int other = 1 - job.endings[rank].culprit;
    CHECK(job.recoveries[rank].refused.starts_with(" peer_dead " + std::to_string(other) + " "));
  }
}

// Proves: a rank that missed the change of hosts learns that the others go on without it.
TEST_CASE("a rank that was stopped while the host was replaced is told so") {
  constexpr int kRanks = 5;
  Job job(Job::withoutLauncher(kRanks, environment("tcp"), "recovering agree"), kRanks);
  REQUIRE(job.ready());
  REQUIRE(::kill(job.pids[4], SIGSTOP) == 0);
  std::this_thread::sleep_for(200ms); // a signal stops one thread after the other
  unsigned long left = 0b01111;
  killAndRecover(job, left, {0});
  REQUIRE(::kill(job.pids[4], SIGCONT) == 0);
  job.until([&] { return job.recoveries.contains(4); });
  INFO(job.refusals());
  CHECK(job.recoveries[4].refused.find("unresponsive") != std::string::npos);
  CHECK(job.recoveries[4].refused.find("replaced the control plane's host") != std::string::npos);
}

// Proves: ranks that were stopped do not continue alone. The others are dead when they wake, but
// may have continued without them first.
TEST_CASE("ranks that wake after all others have ended do not go on alone") {
  for (const std::vector<int>& stopped : {std::vector{0}, {2}, {0, 1}}) // 0 hosts the control plane
    for (const bool excluded : {true, false}) {
      constexpr int kRanks = 5;
      Job job(Job::withoutLauncher(kRanks, environment("tcp"), "recovering agree"), kRanks);
      INFO(stopped.size() << " from rank " << stopped[0] << (excluded ? ", excluded" : ""));
      REQUIRE(job.ready());
      unsigned long others = allOf(kRanks);
      for (const int rank : stopped) {
        others &= ~(1ul << rank);
        REQUIRE(::kill(job.pids[rank], SIGSTOP) == 0);
      }
      std::this_thread::sleep_for(200ms); // SIGSTOP does not stop all threads at once
      if (excluded) REQUIRE(job.recovered(others));
      for (const auto& [rank, pid] : job.pids)
        if ((others >> rank & 1) != 0) REQUIRE(::kill(pid, SIGKILL) == 0);
      std::this_thread::sleep_for(excluded ? 200ms : 2500ms); // > 2 heartbeats of 1 s
      for (const int rank : stopped) REQUIRE(::kill(job.pids[rank], SIGCONT) == 0);
      for (const int rank : stopped) {
        job.until([&] { return job.recoveries.contains(rank); });
        const std::string& refused = job.recoveries[rank].refused;
        INFO(job.refusals());
        CHECK(refused.find("unresponsive") != std::string::npos);
        // An excluded rank 2 finds the message that it is excluded.
        if (rank != 2 || !excluded)
          CHECK(refused.find("may have continued without it") != std::string::npos);
      }
    }
}

// Proves: a rank that could not be reached counts as living only until it has ended, so the last
// of the others is not in the minority.
TEST_CASE("a host that was stopped, replaced and has ended does not count, down to one rank") {
  for (const int ranks : {3, 4, 5}) {
    Job job(Job::withoutLauncher(ranks, environment("tcp"), "recovering agree"), ranks);
    INFO(ranks << " ranks");
    REQUIRE(job.ready());
    REQUIRE(::kill(job.pids[0], SIGSTOP) == 0);
    unsigned long left = allOf(ranks) & ~1ul;
    REQUIRE(job.recovered(left));
    REQUIRE(::kill(job.pids[0], SIGCONT) == 0);
    job.until([&] { return job.recoveries.contains(0); });
    INFO(job.recoveries[0].refused);
    CHECK(job.recoveries[0].refused.find("unresponsive") != std::string::npos);
    while (::kill(job.pids[0], 0) == 0) std::this_thread::sleep_for(1ms);
    job.recoveries.erase(0);
    for (int victim = ranks - 1; victim > 1; --victim) killAndRecover(job, left, {victim});
  }
}

// Proves: a rank may die while the others shrink, whatever they are doing at that moment.
TEST_CASE("the next host is killed while the others shrink") {
  for (const char* transport : {"shm", "tcp"})
    for (const auto delay : {0us, 500us, 2000us, 5000us, 10000us, 20000us}) {
      constexpr int kRanks = 5;
      Job job(Job::withoutLauncher(kRanks, environment(transport), "recovering agree"), kRanks);
      INFO(transport << ", " << delay.count() << " us later");
      REQUIRE(job.ready());
      REQUIRE(::kill(job.pids[0], SIGKILL) == 0);
      std::this_thread::sleep_for(delay);
      unsigned long left = allOf(kRanks) & ~1ul;
      killAndRecover(job, left, {1});
    }
}

// Proves: at whichever send() after its agreement the host dies, the living ranks get the same
// communicator. If only some of them have the result of the last exchange, the next host sends it
// to the others.
TEST_CASE("the next host dies before its K-th send() after its agreement") {
  constexpr int kRanks = 5, kMost = 100;
  int frames = 1;
  for (bool dies = true; dies && frames < kMost; frames += kWholeGrid ? 1 : 3) {
    Job job(Job::withoutLauncher(kRanks, environment("shm"),
                                 "recovering agree " + std::to_string(frames)),
            kRanks);
    INFO("rank 1 dies before call " << frames << " of send()");
    REQUIRE(job.ready());
    REQUIRE(::kill(job.pids[0], SIGKILL) == 0);
    const auto all = [&](unsigned long ranks) {
      for (int rank = 0; rank < kRanks; ++rank)
        if ((ranks >> rank & 1) != 0 && job.recoveries[rank].ranks != ranks) return false;
      return true;
    };
    const bool recovered = job.until([&] { return all(0b11100) || all(0b11110); });
    INFO(job.refusals());
    REQUIRE(recovered);
    dies = !all(0b11110);
  }
  CHECK(frames > 20); // the agreement, and several exchanges with four ranks
  CHECK(frames < kMost);
}

// Proves: the ranks recover also if no rank's process hosts the control plane.
TEST_CASE("the launcher hosts the control plane, and any rank is killed") {
  for (const char* transport : {"shm", "tcp"})
    for (const int victim : {0, 2}) {
      Job job(4, environment(transport), "recovering agree");
      INFO(transport << ", rank " << victim);
      REQUIRE(job.ready());
      unsigned long left = allOf(4);
      killAndRecover(job, left, {victim});
    }
}

namespace {

/// Cuts the network between two hosts, of which the first has ranks 0 to `first` - 1. The ranks of
/// `goes_on` recover, all others are refused.
void cut(int ranks, int first, const std::vector<int>& killed, unsigned long goes_on) {
  const std::string network = RONDO_SOURCE_DIR "/tests/support/shaped_network ";
  if (std::system((network + "--probe 2>/dev/null").c_str()) != 0) {
    WARN("skipped: network namespaces cannot be made here");
    return;
  }
  const TemporaryFolder folder;
  const std::string signal = folder.file("now");
  // A rank that ends must not end the others.
  Job job("exec " + kLimited + "env RONDO_HEARTBEAT=1 RONDO_TIMEOUT=30 RONDO_INIT_TIMEOUT=30 " +
              network + "--ranks " + std::to_string(ranks) + " --per-host " +
              std::to_string(first) + " --mbit 0 --change 0:0@" + signal +
              " -- sh -c '" RONDO_TEST_PROGRAMS "/program_recovering agree; true' 2>/dev/null",
          ranks);
  INFO(ranks << " ranks, " << first << " on the first host");
  REQUIRE(job.ready());
  unsigned long left = allOf(ranks);
  if (!killed.empty()) killAndRecover(job, left, killed);
  std::ofstream(signal) << "cut";
  const auto ended = [&] {
    for (int rank = 0; rank < ranks; ++rank) {
      if ((left >> rank & 1) == 0) continue;
      const Recovery& recovery = job.recoveries[rank];
      const bool goes = (goes_on >> rank & 1) != 0;
      if (goes ? recovery.ranks != goes_on : recovery.refused.empty()) return false;
    }
    return true;
  };
  const bool all = job.until(ended);
  INFO(job.refusals());
  CHECK(all);
  for (const auto& [rank, recovery] : job.recoveries) {
    if ((left >> rank & 1) == 0) continue;
    INFO("rank " << rank << " of " << recovery.size);
    const bool goes = (goes_on >> rank & 1) != 0;
    CHECK(recovery.refused.empty() == goes);
    if (!goes) CHECK(recovery.refused.find("unresponsive") != std::string::npos);
  }
}

} // namespace

// Proves the rule for a network that is cut in two: only the part with the majority goes on, also
// if the other part has the host, and of two halves the one with the lowest rank.
TEST_CASE("a job whose network is cut in two goes on in one part only") {
  SECTION("the host's part is larger") { cut(5, 3, {}, 0b00111); }
  SECTION("both parts are equally large") { cut(4, 2, {}, 0b0011); }
  SECTION("the other part is larger") { cut(7, 4, {1, 2}, 0b1110000); }
}

} // namespace rondo::test
