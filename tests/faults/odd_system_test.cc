// Tests ranks whose system calls are interrupted, move a few bytes at a time, or lack a resource
// (preload/odd_system.cc).
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"
#include "tools/shell.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 3;

Outcome odd(const std::string& how, const std::string& settings, const std::string& program) {
  return shell("timeout -s KILL 110 env RONDO_TIMEOUT=20 RONDO_INIT_TIMEOUT=15 " + settings +
               " LD_PRELOAD=" RONDO_TEST_PROGRAMS "/libodd_system.so ODD_SYSTEM=" + how +
               " " RONDO_COMMAND " " + program);
}

struct End {
  std::string code, text;
  int culprit = -2;
};

/// How the ranks of programs/limited.cc ended.
std::map<int, End> endsOf(const std::string& out) {
  std::map<int, End> ends;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string what, milliseconds;
    int rank = -1;
    words >> what >> rank;
    if (what != "end") continue;
    End& end = ends[rank];
    words >> milliseconds >> end.code >> end.culprit;
    std::getline(words, end.text);
  }
  return ends;
}

int callsIn(const std::string& err) {
  const auto at = err.find("calls ");
  return at == std::string::npos ? -1 : std::atoi(err.c_str() + at + 6);
}

} // namespace

TEST_CASE("system calls that are interrupted or move a few bytes change no result", "[release]") {
  for (const char* transport : {"shm", "tcp", "shm,tcp"})
    for (const char* call : {"allreduce", "alltoall", "broadcast"}) {
      const auto outcome = odd("often", "RONDO_TRANSPORT=" + std::string(transport),
                               std::string("bench ") + call + " -p 3 -b 8 -e 1M -f 16 -n 3 -w 1");
      INFO(transport << ", " << call << ": " << outcome.out << outcome.err);
      CHECK(outcome.status == 0);
      CHECK(outcome.out.find("1048576") != std::string::npos);
    }
}

// Proves: whichever call of a rank lacks memory, a descriptor or space, no rank hangs or crashes.
// Either all ranks succeed, or all get an error, which names the rank if they have met it.
TEST_CASE("ENOMEM, EMFILE or ENOSPC at any call: every rank ends with an error or a result",
          "[release]") {
  for (const char* transport : {"shm", "tcp"}) {
    int calls = 1, failed = 0;
    for (int k = 0; k <= calls; ++k) {
      const auto outcome =
          odd(std::to_string(k), "RONDO_TRANSPORT=" + std::string(transport),
              "run -p " + std::to_string(kRanks) +
                  " -- " RONDO_TEST_PROGRAMS "/program_limited 1 nothing 0 call reduce");
      INFO(transport << ", call " << k << " of " << calls << ": " << outcome.out << outcome.err);
      if (k == 0) calls = callsIn(outcome.err);
      REQUIRE(calls > 20);
      const auto ends = endsOf(outcome.out);
      REQUIRE(ends.size() == kRanks);
      const bool fails = ends.at(1).code != "none";
      failed += fails;
      for (const auto& [rank, end] : ends) {
        INFO("rank " << rank << ": " << end.code << end.text);
        CHECK((end.code != "none") == fails);
        if (fails && rank != 1) CHECK(end.culprit == 1);
      }
    }
    CHECK(failed > 5);
  }
}

} // namespace rondo::test
