// Tests communicators that measure which algorithm is fastest (RONDO_PLANNER=measured).
#include "comm/trials.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

Options byTrials(const std::string& transports) {
  Options options = plainOptions(transports);
  options.planner = "measured";
  return options;
}

CollectiveCall sumOf(std::size_t count) {
  return {.collective = Collective::allreduce, .count = count, .type = DataType::int32};
}

/// In place and out of place: the sum over the ranks of rank + i.
std::string sums(Communicator& comm, std::size_t count) {
  const int size = comm.size(), base = size * (size - 1) / 2;
  std::vector<std::int32_t> in(count), out(count, -1);
  std::iota(in.begin(), in.end(), comm.rank());
  const std::vector<std::int32_t> before = in;
  comm.allReduce(in.data(), out.data(), count, DataType::int32, ReduceOp::sum);
  if (in != before) return "the input has changed";
  comm.allReduce(in.data(), in.data(), count, DataType::int32, ReduceOp::sum);
  for (std::size_t i = 0; i < count; ++i)
    if (out[i] != base + size * static_cast<std::int32_t>(i) || in[i] != out[i])
      return "wrong sum at " + std::to_string(i);
  return "";
}

} // namespace

// Proves: the fastest is chosen, those that are much slower run in the first round only, and ranks
// compare the times after each round.
TEST_CASE("candidates are measured in rounds, and slow ones are dropped", "[trials]") {
  const std::vector<plan::Choice> candidates{plan::parseChoice("tree"), plan::parseChoice("ring"),
                                             plan::parseChoice("direct")};
  std::map<std::string, int> runs;
  std::vector<std::int32_t> in(4096), out(4096);
  const CollectiveCall call{.collective = Collective::allreduce,
                            .input = in.data(),
                            .output = out.data(),
                            .count = in.size(),
                            .type = DataType::int32};
  const auto prepare = [&](const CollectiveCall& one, const plan::Choice& with) {
    const std::string who = &one == &call                           ? with.text()
                            : one.collective == Collective::barrier ? "meet"
                                                                    : "agree";
    return [&runs, who] {
      ++runs[who];
      if (who == "ring") return;
      const bool slow = who == "tree" || who == "direct";
      std::this_thread::sleep_for(std::chrono::milliseconds(slow ? 20 : 1));
    };
  };
  const auto timed = comm::measure(call, comm::buffersOf(call, 0, 2),
                                   {candidates, candidates[0], candidates[0], {}}, prepare);
  REQUIRE(timed.size() == 1);
  CHECK(timed[0].choice.text() == "ring");
  CHECK(runs["tree"] == runs["direct"]);
  CHECK(runs["ring"] > 3 * runs["tree"]);
  CHECK(runs["agree"] == 6);
}

// Proves: the median of the rounds counts, not the best round.
TEST_CASE("a candidate that is fast in one round only is not chosen", "[trials]") {
  const std::vector<plan::Choice> candidates{plan::parseChoice("ring"), plan::parseChoice("tree")};
  int runs_of_ring = 0;
  std::vector<std::int32_t> in(16), out(16);
  const CollectiveCall call{.collective = Collective::allreduce,
                            .input = in.data(),
                            .output = out.data(),
                            .count = in.size(),
                            .type = DataType::int32};
  const auto prepare = [&](const CollectiveCall& one, const plan::Choice& with) {
    return [&runs_of_ring, timed = &one == &call, ring = with.text() == "ring"] {
      if (!timed || (ring && ++runs_of_ring == 6)) return;
      // Much longer than a busy machine delays a thread.
      std::this_thread::sleep_for(std::chrono::milliseconds(ring ? 60 : 30));
    };
  };
  const auto timed = comm::measure(call, comm::buffersOf(call, 0, 2),
                                   {candidates, candidates[0], candidates[0], {}}, prepare);
  REQUIRE(!timed.empty());
  CHECK(timed[0].choice.text() == "tree");
  CHECK(runs_of_ring >= 6);
}

TEST_CASE("the planner's choice stays unless another one is clearly faster", "[trials]") {
  const auto first = [](double ring, double tree, const char* usual) {
    std::vector<comm::Trials::Timed> timed{{plan::parseChoice("ring"), ring},
                                           {plan::parseChoice("tree"), tree}};
    comm::order(timed, plan::parseChoice(usual));
    return timed[0].choice.text();
  };
  CHECK(first(1.00, 1.05, "tree") == "tree");
  CHECK(first(1.00, 1.20, "tree") == "ring");
  CHECK(first(1.05, 1.00, "ring") == "ring");
  CHECK(first(1.05, 1.00, "direct") == "tree"); // it was dropped
}

// Proves: results are right during and after the measurement, in place too, all ranks use the same
// algorithm from then on, and explain() shows what was measured.
TEST_CASE("RONDO_PLANNER=measured: all ranks use what they measured", "[trials]") {
  for (const std::string transport : {"inproc", "shm", "tcp"})
    for (const int size : transport == "inproc" ? kRankCounts : std::vector<int>{3}) {
      CAPTURE(transport, size);
      auto ranks = Communicator::createAll(size, byTrials(transport));
      CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) {
              return sums(comm, 1) + sums(comm, 1001) + sums(comm, 1000) + sums(comm, 70'001);
            })) == "");
      for (const std::size_t count : {1, 1000, 1020, 70'000}) {
        std::set<std::string> used;
        for (Communicator& comm : ranks)
          used.insert(comm.algorithmFor(Collective::allreduce, count, DataType::int32));
        CHECK(used.size() == 1);
        if (size == 1) continue;
        const Explanation made = ranks[0].explain(sumOf(count));
        CHECK(made.decided_by == "measurement");
        CHECK(made.algorithm == *used.begin());
        for (const auto& one : made.candidates)
          if (one.algorithm == made.algorithm) CHECK(one.measured > 0);
      }
      if (size > 1) CHECK(ranks[0].explain(sumOf(4000)).decided_by == "rules");
    }
}

// Proves: each collective that is measured gives what it gives otherwise, in place where it may be.
TEST_CASE("measuring changes no result of a collective", "[trials]") {
  constexpr std::size_t count = 300;
  for (const int size : {2, 3}) {
    auto ranks = Communicator::createAll(size, byTrials("inproc"));
    const auto blocks = static_cast<std::size_t>(size);
    CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            const auto own = static_cast<std::size_t>(comm.rank());
            std::vector<std::int32_t> all(blocks * count);
            const auto mine = [&] { return all.data() + own * count; };
            const auto wrong = [&](std::size_t from, std::size_t to, auto&& value) {
              for (std::size_t i = from * count; i < to * count; ++i)
                if (all[i] != static_cast<std::int32_t>(value(i / count))) return true;
              return false;
            };
            const auto rank = [](std::size_t block) { return block + 1; };
            std::fill_n(mine(), count, static_cast<std::int32_t>(own + 1));
            comm.allGather(mine(), all.data(), count, DataType::int32);
            if (wrong(0, blocks, rank)) return "AllGather";
            std::vector<std::int32_t> mixed(all.size());
            comm.allToAll(all.data(), mixed.data(), count, DataType::int32);
            all = mixed;
            if (wrong(0, blocks, [&](std::size_t) { return own + 1; })) return "AlltoAll";
            comm.reduceScatter(all.data(), mine(), count, DataType::int32, ReduceOp::sum);
            const std::size_t sum = blocks * (blocks + 1) / 2;
            if (wrong(own, own + 1, [&](std::size_t) { return sum; })) return "ReduceScatter";
            comm.reduce(mine(), mine(), count, DataType::int32, ReduceOp::sum, 1);
            if (own == 1 && wrong(1, 2, [&](std::size_t) { return blocks * sum; })) return "Reduce";
            comm.broadcast(mine(), mine(), count, DataType::int32, 1);
            if (wrong(own, own + 1, [&](std::size_t) { return blocks * sum; })) return "Broadcast";
            return "";
          })) == "");
  }
}

TEST_CASE("what the user asks for, deterministic mode and groups come before trials", "[trials]") {
  Options options = byTrials("inproc");
  options.algorithm = "tree";
  auto asked = Communicator::createAll(3, options);
  CHECK(firstComplaint(onRanks(asked, [](Communicator& comm) { return sums(comm, 10); })) == "");
  CHECK(asked[2].explain(sumOf(10)).decided_by == "RONDO_ALGO");

  options.algorithm.clear();
  options.deterministic = true; // a ring does not reduce in rank order
  auto ordered = Communicator::createAll(3, options);
  CHECK(firstComplaint(onRanks(ordered, [](Communicator& comm) { return sums(comm, 100); })) == "");
  for (const auto& one : ordered[0].explain(sumOf(100)).candidates)
    if (one.algorithm == "ring") CHECK(one.measured == 0);

  auto grouped = Communicator::createAll(3, byTrials("inproc"));
  CHECK(firstComplaint(onRanks(grouped, [](Communicator& comm) {
          std::vector<std::int32_t> data(10);
          {
            Group group;
            comm.allReduce(data.data(), data.data(), 10, DataType::int32, ReduceOp::sum);
            group.end();
          }
          return sums(comm, 10);
        })) == "");
  CHECK(grouped[1].explain(sumOf(10)).decided_by == "rules");
}

// Proves: what an earlier asynchronous call writes is there before the input is kept and put back.
TEST_CASE("measuring waits for earlier calls on the same buffer", "[trials]") {
  constexpr std::size_t count = 500'000;
  auto ranks = Communicator::createAll(2, byTrials("shm"));
  CHECK(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
          std::vector<std::int32_t> in(count, comm.rank() + 1), data(count);
          Work earlier =
              comm.reduceAsync(in.data(), data.data(), count, DataType::int32, ReduceOp::sum, 0);
          comm.broadcast(data.data(), data.data(), count, DataType::int32, 0);
          earlier.wait();
          for (const std::int32_t value : data)
            if (value != 3) return "got " + std::to_string(value);
          return "";
        })) == "");
}

TEST_CASE("asynchronous calls measure nothing, and wrong calls are refused", "[trials]") {
  auto ranks = Communicator::createAll(2, byTrials("inproc"));
  CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) {
          std::vector<std::int32_t> data(10);
          comm.allReduceAsync(data.data(), data.data(), 10, DataType::int32, ReduceOp::sum).wait();
          return sums(comm, 10);
        })) == "");
  CHECK(ranks[1].explain(sumOf(10)).decided_by == "rules");
  CollectiveCall wrong = sumOf(10);
  wrong.type = static_cast<DataType>(99);
  CHECK(caught([&] { ranks[0].call(wrong); }).code == ErrorCode::invalid_argument);
}

TEST_CASE("RONDO_ALGO for one collective leaves the others to be measured", "[trials]") {
  Options options = byTrials("inproc");
  options.algorithm = "allreduce:ring";
  options.deterministic = true; // a ring cannot serve it
  auto ranks = Communicator::createAll(3, options);
  CHECK(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
          std::vector<std::int32_t> own(8, comm.rank()), all(24);
          comm.allGather(own.data(), all.data(), 8, DataType::int32);
          return all[8] == 1 && all[23] == 2 ? "" : "wrong blocks";
        })) == "");
}

// Proves: a rank that calls in another way than the others does not make them wait for ever.
TEST_CASE("a rank that measures alone gets an error that names both calls", "[trials]") {
  auto ranks = Communicator::createAll(2, byTrials("inproc"));
  const auto complaints = onRanks(ranks, [](Communicator& comm) -> std::string {
    std::vector<std::int32_t> data(5000);
    if (comm.rank() == 0) return sums(comm, 5000);
    comm.broadcast(data.data(), data.data(), 4, DataType::int32, 0);
    return "";
  });
  CHECK(complaints[0].find("AllReduce") != std::string::npos);
  CHECK(complaints[0].find("Broadcast") != std::string::npos);
}

} // namespace rondo::test
