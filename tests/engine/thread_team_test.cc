// Ranks with several threads: every part is done exactly once, and results do not change.
#include "engine/thread_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/collective_case.h"
#include "support/forked_child.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using engine::ThreadTeam;

} // namespace

TEST_CASE("every part of every round is done once, before run() returns", "[thread_team]") {
  for (const int size : {1, 2, 3, 8}) {
    ThreadTeam team(size);
    REQUIRE(team.size() == static_cast<std::size_t>(size));
    std::vector<int> done(team.size()); // not atomic: the team's own ordering must be enough
    for (int round = 1; round <= 500; ++round) {
      auto job = [&](std::size_t part) { ++done[part]; };
      team.run(job);
      REQUIRE(done == std::vector<int>(team.size(), round));
    }
  }
}

TEST_CASE("a sleeping thread team wakes up for new work", "[thread_team]") {
  ThreadTeam team(3);
  std::vector<std::chrono::nanoseconds> times;
  for (int round = 0; round < 4; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30)); // longer than the threads poll
    const auto begin = std::chrono::steady_clock::now();
    std::atomic<int> done{0};
    auto job = [&](std::size_t) { ++done; };
    team.run(job);
    REQUIRE(done == 3);
    times.push_back(std::chrono::steady_clock::now() - begin);
  }
  // A thread that is not woken polls once a second.
  std::sort(times.begin(), times.end());
  CHECK(times[2] < std::chrono::milliseconds(500)); // one round may be disturbed
}

TEST_CASE("a forked child drops a thread team and leaves its own threads alone", "[thread_team]") {
  auto team = std::make_unique<ThreadTeam>(3);
  Child child([&] { return dropBesideOwnThreads([&] { team.reset(); }); });
  CHECK(child.end() == 0);
}

TEST_CASE("an impossible number of threads is refused", "[thread_team]") {
  for (const int threads : {-1, 0, 65}) {
    Options options = plainOptions();
    options.threads = threads;
    REQUIRE_THROWS_AS(Communicator::createAll(1, options), Error);
  }
}

TEST_CASE("collectives of large blocks are right with any number of threads", "[thread_team]") {
  const auto some = [](std::vector<int> all) { // under sanitizers only the last
    return kWholeGrid ? all : std::vector{all.back()};
  };
  for (const int threads : some({2, 5, 3}))
    for (const int ranks : some({1, 2, 3})) {
      Options options = plainOptions("inproc,shm");
      options.threads = threads;
      std::vector<CollectiveCase> cases;
      for (const Collective collective : kCollectives) {
        if (collective == Collective::sendrecv) continue;
        for (const DataType type : {DataType::int8, DataType::bfloat16, DataType::float64})
          for (const std::size_t count : {std::size_t{16391}, std::size_t{100003}})
            for (const auto& op : {ReduceOp(ReduceOp::sum), ReduceOp(ReduceOp::avg)})
              cases.push_back({collective, count, type, op, ranks - 1, false, true});
      }
      auto communicators = Communicator::createAll(ranks, options);
      INFO(threads << " threads, " << ranks << " ranks");
      REQUIRE(firstComplaint(onRanks(communicators, [&](Communicator& comm) -> std::string {
                for (const auto& one : cases)
                  if (std::string wrong = one.run(comm); !wrong.empty()) return wrong;
                return {};
              })) == "");
    }
}

} // namespace rondo::test
