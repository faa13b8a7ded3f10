// Tests failures from outside: real processes, real signals, and the time limits that are promised.
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "job.h"
#include "rondo/communicator.h"
#include "rondo/transports.h"
#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 4;
using Names = std::vector<const char*>;

/// The transports between processes in this build. ucx only with the algorithm that suffices to
/// test its ends, so `algorithm` is "ring" or empty for it.
std::vector<std::string> wires(const std::string& algorithm = "") {
  std::vector<std::string> names;
  for (const TransportInfo& transport : transports())
    if (transport.between_processes && !transport.between_devices && transport.missing.empty() &&
        (transport.name != "ucx" || algorithm.empty() || algorithm == "ring"))
      names.push_back(transport.name);
  return names;
}

/// `rondo run -p 4` of the endless program.
std::string settings(const std::string& transport, const std::string& algorithm) {
  return "RONDO_TRANSPORT=" + transport + " RONDO_ALGO='" + algorithm + "'";
}

/// Sends the signal to one rank, and requires that all others name it within the limit.
void strike(const std::string& transport, const std::string& algorithm, int victim, int signal,
            const std::string& code, double bound, const std::string& arguments = "3000",
            int ranks = kRanks) {
  Job job(ranks, settings(transport, algorithm), "endless_allreduce " + arguments);
  INFO(transport << ", " << algorithm << ", rank " << victim);
  REQUIRE(job.ready());
  const long long struck = now();
  REQUIRE(::kill(job.pids[victim], signal) == 0);
  REQUIRE(job.ended(static_cast<std::size_t>(ranks) - 1));
  for (const auto& [rank, ending] : job.endings) {
    INFO("rank " << rank << " after " << seconds(ending.at - struck) << " s:" << ending.text);
    CHECK(rank != victim);
    CHECK(ending.code == code);
    CHECK(ending.culprit == victim);
    CHECK(ending.text.find("rank " + std::to_string(victim)) != std::string::npos);
    CHECK(seconds(ending.at - struck) < bound * kSlower);
  }
}

} // namespace

TEST_CASE("kill -9 of any rank: within a second every survivor names it") {
  for (const char* algorithm : kWholeGrid ? Names{"ring", "tree", "direct"} : Names{"ring"})
    for (const std::string& transport : wires(algorithm))
      for (int victim = 0; victim < kRanks; victim += kWholeGrid ? 1 : 3)
        strike(transport, algorithm, victim, SIGKILL, "peer_dead", 1.0);
}

// Proves: processes that copy from and to each other's memory fail as others do. These calls spend
// almost all their time in such copies, so the signal arrives during one.
TEST_CASE("kill -9 of a rank during a copy between processes: every survivor names it") {
  for (int attempt = 0; attempt < (kWholeGrid ? 5 : 1); ++attempt) {
    for (const int victim : {0, 1})
      strike("shm", "", victim, SIGKILL, "peer_dead", 1.0, "4000000 broadcast", 2);
    strike("shm", "direct", attempt % kRanks, SIGKILL, "peer_dead", 1.0, "1000000");
  }
}

TEST_CASE("kill -9 of a rank whose child lives on: within a second every survivor names it") {
  for (const char* child : {"fork", "clone"})
    for (const std::string& transport : wires())
      for (int victim = kWholeGrid ? 0 : 3; victim < kRanks; victim += 3)
        strike(transport, "", victim, SIGKILL, "peer_dead", 1.0, std::string("3000 ") + child);
}

// Proves: whatever a rank does when it dies during the start, no other rank waits for ever, and one
// that has met it names it.
TEST_CASE("kill -9 of a rank at any time of the start: every other rank gets an error") {
  const std::vector<int> delays = kWholeGrid ? std::vector<int>{0, 1, 2, 4, 8, 12, 16, 24, 32, 48}
                                             : std::vector<int>{0, 10, 50};
  for (const char* transport : {"shm", "tcp"})
    for (const int victim : {0, 2})
      for (const int delay : delays) {
        constexpr int kFew = 3;
        Job job(Job::withoutLauncher(kFew,
                                     "DIES=" + std::to_string(victim) + ":" +
                                         std::to_string(delay * 1000) +
                                         " RONDO_TRANSPORT=" + transport + " RONDO_INIT_TIMEOUT=2",
                                     "endless_allreduce 3000"),
                kFew);
        INFO(transport << ", rank " << victim << " after " << delay << " ms");
        REQUIRE(job.ended(kFew - 1));
        for (const auto& [rank, ending] : job.endings) {
          INFO("rank " << rank << ": " << ending.code << ending.text);
          CHECK(rank != victim);
          CHECK((ending.code == "init_failed" || ending.code == "peer_dead"));
          // Of several ranks that did not come, the first one is the culprit.
          const bool never_met =
              ending.code == "init_failed" &&
              (ending.culprit == -1 || ending.text.find("did not come") != std::string::npos);
          CHECK((ending.culprit == victim || never_met));
        }
      }
}

TEST_CASE("SIGSTOP of a rank: within four seconds every survivor names it") {
  for (const std::string& transport : wires())
    for (int victim : {0, 3}) strike(transport, "", victim, SIGSTOP, "unresponsive", 4.0);
}

// Proves: abort() ends this rank's calls, also those that RONDO_PATIENT lets go on after a death,
// which would end 10 s later.
TEST_CASE("abort() after the death of another rank ends the calls of a patient rank") {
  Job job(kRanks, "RONDO_PATIENT=1 ABORTS=1", "endless_allreduce 3000");
  REQUIRE(job.ready());
  const long long struck = now();
  REQUIRE(::kill(job.pids[3], SIGKILL) == 0);
  REQUIRE(job.ended(1));
  const auto& [rank, ending] = *job.endings.begin();
  INFO("rank " << rank << " after " << seconds(ending.at - struck) << " s:" << ending.text);
  CHECK(rank == 1);
  CHECK(ending.code == "peer_dead");
  CHECK(ending.culprit == 3);
  CHECK(seconds(ending.at - struck) < 9);
}

// Proves: time in which a rank was stopped does not count for the deadlines of its calls, and the
// rank that continues first waits for the others.
TEST_CASE("ranks that were stopped together for longer than the timeout of calls go on") {
  using namespace std::chrono_literals;
  for (const std::string& transport : wires()) {
    Job job(kRanks, settings(transport, "") + " RONDO_TIMEOUT=3 RONDO_HEARTBEAT=20",
            "endless_allreduce 3000");
    INFO(transport);
    REQUIRE(job.ready());
    REQUIRE(::kill(job.pids[3], SIGSTOP) == 0);
    std::this_thread::sleep_for(500ms); // the others wait for it
    for (const int rank : {0, 1, 2}) REQUIRE(::kill(job.pids[rank], SIGSTOP) == 0);
    std::this_thread::sleep_for(4s);
    for (const auto& [rank, pid] : job.pids) {
      REQUIRE(::kill(pid, SIGCONT) == 0);
      std::this_thread::sleep_for(200ms);
    }
    std::this_thread::sleep_for(500ms); // a failure would be known by now
    REQUIRE(::kill(job.pids[3], SIGKILL) == 0);
    REQUIRE(job.ended(kRanks - 1));
    for (const auto& [rank, ending] : job.endings) {
      INFO("rank " << rank << ":" << ending.text);
      CHECK(ending.code == "peer_dead");
    }
  }
}

TEST_CASE("another count on one rank: within a second all ranks get an error with both calls") {
  for (const std::string& transport : wires())
    for (const char* counts :
         kWholeGrid ? Names{"3000 2 3001", "10 2 100000", "100000 0 8"} : Names{"10 2 100000"}) {
      Job job(kRanks, settings(transport, ""), std::string("endless_allreduce ") + counts);
      INFO(transport << ", " << counts);
      REQUIRE(job.ended(kRanks));
      for (const auto& [rank, ending] : job.endings) {
        INFO("rank " << rank << ":" << ending.text);
        CHECK(ending.code == "mismatch");
        CHECK(ending.text.find("AllReduce #") != std::string::npos);
        CHECK(seconds(ending.at - ending.called) < kSlower);
      }
    }
}

} // namespace rondo::test
