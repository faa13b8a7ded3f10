// Tests ranks that run out of descriptors, file size or address space, or have no shared memory:
// every rank ends soon and names the rank that lacked a resource, or the job works without it.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 3;
constexpr int kVictim = 1;

// Instrumented code is several times slower; the time limits are promised for normal builds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long long kSlower = 4;
constexpr bool kInstrumented = true;
#else
constexpr long long kSlower = 1;
constexpr bool kInstrumented = false;
#endif

struct End {
  long long milliseconds = 0;
  std::string code;
  int culprit = -2;
  std::string text;
};

struct Outcome {
  std::map<int, End> ends; ///< of the ranks; one that crashed is missing
  std::string log;
};

/// How the ranks of tests/faults/programs/limited.cc ended.
Outcome run(const std::string& transport, const std::string& arguments) {
  const std::string command =
      "timeout -s KILL 60 env RONDO_DEBUG=warn RONDO_TIMEOUT=10 RONDO_INIT_TIMEOUT=10 "
      "RONDO_TRANSPORT=" +
      transport + " " RONDO_COMMAND " run -p " + std::to_string(kRanks) +
      " -- " RONDO_TEST_PROGRAMS "/program_limited " + arguments + " 2>&1";
  Outcome outcome;
  FILE* output = ::popen(command.c_str(), "r");
  char line[4096];
  while (std::fgets(line, sizeof line, output)) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what != "end") {
      outcome.log += line;
      continue;
    }
    int rank = -1;
    words >> rank;
    End& end = outcome.ends[rank];
    words >> end.milliseconds >> end.code >> end.culprit;
    std::getline(words, end.text);
  }
  ::pclose(output);
  return outcome;
}

/// Requires that all calls succeeded, or that all ranks got the same error, which names the victim,
/// within a second. Returns whether there was an error.
bool endsWell(const std::string& transport, const std::string& arguments) {
  const auto ends = run(transport, arguments).ends;
  INFO(transport << ", " << arguments);
  REQUIRE(ends.size() == kRanks);
  const bool fails = ends.at(kVictim).code != "none";
  for (const auto& [rank, end] : ends) {
    INFO("rank " << rank << " after " << end.milliseconds << " ms: " << end.code << end.text);
    CHECK(end.milliseconds < 1000 * kSlower);
    CHECK(end.code == (fails ? "system" : "none"));
    if (!fails) continue;
    CHECK(end.culprit == kVictim);
    CHECK(end.text.find("rank " + std::to_string(kVictim)) != std::string::npos);
  }
  return fails;
}

std::string atVictim(const std::string& what) { return std::to_string(kVictim) + " " + what; }

} // namespace

TEST_CASE("a channel too large for the file size limit: all ranks name the rank within a second") {
  CHECK(endsWell("shm", atVictim("size 100000 call reduce")));
  CHECK(endsWell("shm", atVictim("size 0 call broadcast")));
  CHECK(endsWell("tcp", atVictim("size 100000 call reduce")) == false);
}

TEST_CASE("too few descriptors for a call's channels: all ranks name the rank within a second") {
  for (const char* transport : {"shm", "tcp"})
    for (const char* call : {"reduce", "broadcast"}) {
      int failed = 0;
      for (int left = 0; left < 8; left += kWholeGrid ? 1 : 7)
        failed += endsWell(transport, atVictim("files " + std::to_string(left) + " call " + call));
      INFO(transport << ", " << call);
      CHECK(failed > 0);
      CHECK(failed < (kWholeGrid ? 8 : 2));
    }
}

TEST_CASE("too little address space for a call: all ranks name the rank within a second") {
  if (kInstrumented) return; // shadow memory exceeds any limit
  for (const char* transport : {"shm", "tcp"})
    for (const char* bytes : {"0", "65536", "262144", "1048576", "2097152", "4194304", "16777216"})
      endsWell(transport, atVictim(std::string("memory ") + bytes + " call reduce"));
}

TEST_CASE(
    "if memory files are refused, the next transport is used, and the reason is logged once") {
  const std::string mixed[kRanks] = {" self tcp shm", " tcp self tcp", " shm tcp self"};
  const std::string none[kRanks] = {" self tcp tcp", " tcp self tcp", " tcp tcp self"};
  const auto serves = [](const std::string& arguments, const std::string* transports, int lines) {
    const Outcome outcome = run("", arguments);
    INFO(arguments << "\n" << outcome.log);
    REQUIRE(outcome.ends.size() == kRanks);
    for (const auto& [rank, end] : outcome.ends) {
      INFO("rank " << rank << ": " << end.code << end.text);
      CHECK(end.code == "none");
      CHECK(end.text == transports[rank]);
    }
    int said = 0;
    for (std::size_t at = 0; (at = outcome.log.find("shm is not used", at)) != std::string::npos;
         ++at)
      ++said;
    CHECK(said == lines);
  };
  for (const int error : {EPERM, EACCES, ENOSYS})
    serves(atVictim("memfd " + std::to_string(error) + " create reduce"), mixed, 1);
  serves("-1 memfd " + std::to_string(EPERM) + " create reduce", none, kRanks);
  serves(atVictim("size 100000 create reduce"), mixed, 1);
}

TEST_CASE("shm works with a /dev/shm of one page, because Rondo does not use it") {
  // In its own mount namespace, which needs root.
  const std::string inside = "unshare --mount sh -c 'mount -t tmpfs -o size=4k none /dev/shm && ";
  if (std::system((inside + "true' 2>/dev/null").c_str()) != 0) {
    WARN("skipped: no mount namespace here");
    return;
  }
  const std::string command = inside +
                              "exec timeout -s KILL 60 env RONDO_DEBUG=warn RONDO_TRANSPORT=shm "
                              "RONDO_TIMEOUT=30 " RONDO_COMMAND
                              " bench allreduce -p 3 -b 4M -e 4M -n 2' 2>&1";
  FILE* output = ::popen(command.c_str(), "r");
  std::string text;
  char line[4096];
  while (std::fgets(line, sizeof line, output)) text += line;
  INFO(text);
  CHECK(::pclose(output) == 0);
  CHECK(text.find("shm is not used") == std::string::npos);
}

TEST_CASE("memory files that are refused later fail the call on all ranks, within a second") {
  CHECK(endsWell("shm", atVictim("memfd " + std::to_string(EPERM) + " call reduce")));
}

} // namespace rondo::test
