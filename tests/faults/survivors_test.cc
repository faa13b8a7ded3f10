// Tests that the other ranks stay supervised when the rank that hosts the control plane ends.
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>

#include "job.h"
#include "support/test.h"

namespace rondo::test {

TEST_CASE("rank 0 splits off and ends; one of the others is killed: all remaining ranks name it") {
  for (const char* transport : {"shm", "tcp"})
    for (int victim = 0; victim < 3; ++victim) {
      Job job(Job::withoutLauncher(4, std::string("RONDO_TIMEOUT=15 RONDO_TRANSPORT=") + transport,
                                   "survivors"),
              3);
      INFO(transport << ", rank " << victim << " of the three is killed");
      REQUIRE(job.ready());
      // While the control plane moves, a death may take three seconds to become known.
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      const long long struck = now();
      REQUIRE(::kill(job.pids[victim], SIGKILL) == 0);
      REQUIRE(job.ended(2));
      for (const auto& [rank, ending] : job.endings) {
        INFO("rank " << rank << " after " << seconds(ending.at - struck) << " s:" << ending.text);
        CHECK(rank != victim);
        CHECK(ending.code == "peer_dead");
        CHECK(ending.culprit == victim);
        CHECK(seconds(ending.at - struck) < kSlower);
      }
    }
}

} // namespace rondo::test
