// `rondo train --strategy ps` as people run it, and a server that dies.
#include "support/runs.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

using tools::Outcome;
using tools::shell;

TEST_CASE("a server that dies is named by every rank, over shared memory and over sockets") {
  const tools::TemporaryFolder folder;
  for (const char* transport : {"shm", "tcp"})
    for (const char* consistency : {"bsp", "asp"}) {
      // Rank 0 is the first process that the launcher starts, and a server only.
      const std::string metrics = folder.file(std::string(transport) + consistency);
      const Outcome outcome = shell(
          std::string("$RONDO train -p 3 --strategy ps --dedicated-servers --transport ") +
          transport + " --consistency " + consistency +
          " --data synthetic:shape=1x8x8,train=2000,test=100 --batch 20 --epochs 500 --metrics " +
          metrics + " &\nJOB=$!\nwhile [ ! -s " + metrics +
          " ]; do sleep 0.01; done\nkill -9 $(pgrep -P $JOB | head -n 1)\nwait $JOB\n");
      INFO(transport << ", " << consistency << ": " << outcome.err);
      REQUIRE(outcome.status == 128 + 9);
      REQUIRE(contains(outcome.err, "rank 0 (pid "));
      for (const char* rank : {"rondo: rank 1: peer_dead: ", "rondo: rank 2: peer_dead: "})
        REQUIRE(contains(outcome.err, rank));
    }
}

TEST_CASE("what a straggler's option cannot mean is said with its usage") {
  for (const char* wrong : {"--slow 1", "--slow x:2", "--jitter 0.1", "--jitter 0.1:"}) {
    const Outcome outcome = shell(std::string("$RONDO train ") + wrong);
    INFO(wrong << ": " << outcome.err);
    REQUIRE(outcome.status != 0);
    REQUIRE(contains(outcome.err, contains(wrong, "slow") ? "RANK:FACTOR" : "PROBABILITY:FACTOR"));
  }
}

#endif

} // namespace rondo::test
