// Tests ranks as processes that never start: the error on every other rank.
#include <signal.h>

#include <span>
#include <string>
#include <thread>

#include "bootstrap/session.h"

#include "member_job.h"
#include "ranks.h"
#include "rondo/communicator.h"
#include "session_cases.h"
#include "support/free_port.h"
#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

// Time after which all started ranks have joined. A kill before that causes a different error.
constexpr auto kJoined = kWholeGrid ? 2s : 10s;

} // namespace

TEST_CASE(
    "a rank that dies while others are missing fails the start on the ranks that have joined") {
  for (const Host host : kHosts) {
    Job job(host, 4, "wait", kRare);
    for (const int rank : {0, 1, 2}) job.start(rank);
    std::this_thread::sleep_for(kJoined);
    job.at(2).signal(SIGKILL);
    for (const int rank : {0, 1}) {
      const std::string line = job.at(rank).line();
      INFO("rank " << rank << " says: " << line);
      CHECK(startsWith(line, "error init_failed 2 rank 2 died"));
      CHECK(line.find("rank 3 had not joined") != std::string::npos);
    }
  }
}

TEST_CASE(
    "a host that dies while others are missing fails the start on the ranks that have joined") {
  for (const int size : {3, 4, 5}) {
    Job job(Host::rank_zero, size, "wait", kRare);
    for (int rank = 0; rank + 1 < size; ++rank) job.start(rank);
    std::this_thread::sleep_for(kJoined);
    job.at(0).signal(SIGKILL);
    for (int rank = 1; rank + 1 < size; ++rank) {
      const std::string line = job.at(rank).line();
      INFO("rank " << rank << " says: " << line);
      CHECK(startsWith(line, "error init_failed"));
      CHECK(line.find("which hosts the control plane, died") != std::string::npos);
    }
  }
}

TEST_CASE("a missing rank is listed at the deadline") {
  for (const Host host : kHosts) {
    Job job(host, 4, "wait", {{"RONDO_INIT_TIMEOUT", "10"}}); // rank 3 may start late
    for (const int rank : {0, 2, 3}) job.start(rank);
    for (const int rank : {0, 2, 3}) {
      const std::string line = job.at(rank).line();
      INFO("rank " << rank << " says: " << line);
      CHECK(startsWith(line, "error init_failed 1 "));
      CHECK(line.find("rank 1 of 4 did not come") != std::string::npos);
    }
  }
}

// Proves: ranks that have failed to meet may try again in the same processes, whichever of them
// does first. A rank that comes before rank 0 meets the hub of the start that failed.
TEST_CASE("ranks that missed one at an address meet there when all try again") {
  for (const int first : {0, 1}) {
    INFO("rank " << first << " tries again first");
    Options options = quickOptions();
    options.comm_id = "127.0.0.1:" + std::to_string(freePort());
    options.init_timeout = 1s;
    const auto missed = runRanks(
        2, [&](int rank) { bootstrap::Session::open(Rendezvous::commId(rank, 3), options); });
    for (const Outcome& end : missed) {
      CHECK(end.code == ErrorCode::init_failed);
      CHECK(end.text.find("rank 2 of 3 did not come") != std::string::npos);
    }
    options.init_timeout = 60s;
    const auto met = runRanks(3, [&](int rank) {
      // Rank 2 has not failed yet: the old hub would tell it why the others did.
      if (rank == 2) std::this_thread::sleep_for(2s);
      else if (rank != first) std::this_thread::sleep_for(500ms);
      const auto session = bootstrap::Session::open(Rendezvous::commId(rank, 3), options);
      const auto mine = static_cast<std::byte>(rank);
      const auto all = session->allGather(std::span(&mine, 1), 60s);
      expect(all.size() == 3 && all[2] == std::vector{std::byte{2}}, "the blobs of all ranks");
    });
    CHECK(troubles(met) == "");
  }
}

// Proves: a rank that comes after the start has failed does not complete it, so all may try again.
TEST_CASE("ranks meet at an address after the missing one has come too late") {
  Options options = quickOptions();
  options.comm_id = "127.0.0.1:" + std::to_string(freePort());
  options.init_timeout = 1s;
  const auto open = [&](int rank) {
    return bootstrap::Session::open(Rendezvous::commId(rank, 3), options);
  };
  for (const Outcome& end : runRanks(2, [&](int rank) { open(rank); }))
    CHECK(end.code == ErrorCode::init_failed);
  const auto late = runRanks(1, [&](int) { open(2); });
  CHECK_FALSE(late.front().ok);
  options.init_timeout = 60s;
  CHECK(troubles(runRanks(3, [&](int rank) { open(rank)->allGather({}, 60s); })) == "");
}

TEST_CASE("a rank without a hub fails at the deadline") {
  Job job(Host::rank_zero, 2, "wait", {{"RONDO_INIT_TIMEOUT", "0.5"}});
  job.start(1);
  const std::string line = job.at(1).line();
  INFO(line);
  CHECK(startsWith(line, "error init_failed -1 rank 1 of 2 cannot join at the rendezvous"));
}

// Proves: ranks do not wait for a listener that was there before its id was known and has gone.
TEST_CASE("a process that made a unique id and died is named to the ranks that come later") {
  Process host({kProgram, {"host"}, {{"RONDO_SOCKET_IFNAME", "lo"}}, -1});
  const UniqueId id = idOf(host.line());
  host.signal(SIGKILL);
  REQUIRE(host.end().has_value());
  const auto outcomes = runRanks(3, [&](int rank) {
    Communicator::create(Rendezvous::uniqueId(id, rank, 3), quickOptions());
  });
  for (int rank = 0; rank < 3; ++rank) {
    const Outcome& end = outcomes[static_cast<std::size_t>(rank)];
    INFO("rank " << rank << ": " << end.text);
    CHECK(end.code == ErrorCode::init_failed);
    CHECK(end.text.find("the process that made the unique id no longer listens") !=
          std::string::npos);
  }
}

} // namespace rondo::test
