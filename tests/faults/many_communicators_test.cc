// Tests hundreds of communicators in processes with few descriptors.
#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "support/descriptors.h"
#include "support/grid.h"
#include "support/paths.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

// Instrumented memory has red zones, and freed memory is kept for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kInstrumented = 4;
#else
constexpr long kInstrumented = 1;
#endif

struct Rank {
  long descriptors = -1, bytes = -1; ///< of all unused communicators together
  long small = -1;                   ///< bytes of those that moved small messages
  int used = -1, sum = -1;
  std::string trouble;
};

/// `rondo run -p RANKS` of the program, with 1024 descriptors per process.
std::map<int, Rank> run(int ranks, const std::string& settings, int unused, int used,
                        int small = 0) {
  const std::string command =
      "ulimit -n 1024; exec timeout -s KILL 200 env RONDO_HEARTBEAT=30 "
      "ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=16 " +
      settings + " " RONDO_COMMAND " run -p " + std::to_string(ranks) +
      " -- " RONDO_TEST_PROGRAMS "/program_many_communicators " + std::to_string(unused) + " " +
      std::to_string(used) + " " + std::to_string(small) + " 2>/dev/null";
  FILE* output = ::popen(command.c_str(), "r");
  std::map<int, Rank> found;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), output)) {
    std::istringstream words(line.data());
    int number = -1;
    std::string what;
    words >> number >> what;
    Rank& rank = found[number];
    if (what == "unused") words >> rank.descriptors >> rank.bytes;
    if (what == "used") {
      words >> rank.used;
      std::getline(words, rank.trouble);
    }
    if (what == "small") words >> rank.small;
    if (what == "world") words >> rank.sum;
  }
  ::pclose(output);
  return found;
}

} // namespace

TEST_CASE("many communicators of 8 processes: no descriptor, at most 64 KiB each while unused") {
  constexpr int kUnused = kWholeGrid ? 1000 : 250;
  const auto ranks = run(8, "", kUnused, 0);
  REQUIRE(ranks.size() == 8);
  for (const auto& [number, rank] : ranks) {
    INFO("rank " << number);
    CHECK(rank.descriptors <= 2); // not one each
    CHECK(rank.bytes <= kUnused * (64L << 10) * kInstrumented);
    CHECK(rank.sum == 8);
  }
}

TEST_CASE("communicators that are used over shared memory keep no descriptor") {
  // More of them than there are descriptors for one socket each.
  const auto ranks = run(4, "RONDO_TRANSPORT=shm RONDO_BUFFSIZE=4096", 0, 400);
  REQUIRE(ranks.size() == 4);
  for (const auto& [number, rank] : ranks) {
    INFO("rank " << number << ":" << rank.trouble);
    CHECK(rank.used == 400);
    CHECK(rank.sum == 4);
  }
}

TEST_CASE("a communicator that moved only small messages holds at most 256 KiB a peer, and 100 KiB",
          "[release]") {
  constexpr long kRecord = 100 << 10; // of its calls
  for (const std::string transport : {"shm", "tcp"}) {
    for (const int peers : {1, 2}) {
      const auto ranks = run(peers + 1, "RONDO_TRANSPORT=" + transport, 0, 0, 20);
      REQUIRE(ranks.size() == static_cast<std::size_t>(peers) + 1);
      for (const auto& [number, rank] : ranks) {
        INFO(transport << ", rank " << number << " of " << peers + 1);
        REQUIRE(rank.small >= 0);
        CHECK(rank.small <= 20L * (peers * (256 << 10) + kRecord));
        CHECK(rank.sum == peers + 1);
      }
    }
  }
}

TEST_CASE("if sockets run out, the error names the limit, and existing communicators go on") {
  const auto ranks = run(4, "RONDO_TRANSPORT=tcp RONDO_ALGO=direct", 0, 600);
  REQUIRE(ranks.size() == 4);
  bool named = false;
  for (const auto& [number, rank] : ranks) {
    INFO("rank " << number << " after " << rank.used << ":" << rank.trouble);
    CHECK(rank.used >= 50);
    CHECK(rank.used < 600);
    CHECK(rank.sum == 4);
    named |= rank.trouble.find("ulimit -n") != std::string::npos;
  }
  CHECK(named);
}

TEST_CASE("200 communicators of 8 threads with 1024 descriptors need none") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = 1024;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  Communicator::createAll(1); // the process's record of calls keeps one
  const std::size_t at_first = openDescriptors();
  {
    std::vector<std::vector<Communicator>> all;
    for (int i = 0; i < 200; ++i) all.push_back(Communicator::createAll(8));
    CHECK(openDescriptors() == at_first);
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

} // namespace rondo::test
