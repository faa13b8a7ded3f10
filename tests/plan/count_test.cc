// Compares rounds, bytes and wires with formulas, and tests the lecture tables.
#include <bit>

#include "plan/builder.h"
#include "plan/count.h"
#include "plan/critical_path.h"
#include "plan/tables.h"
#include "rondo/error.h"
#include "subjects.h"
#include "support/test.h"

using namespace rondo;
using namespace rondo::plan;

namespace {

using Plans = std::vector<RankPlan>;

/// Rank 0 of a binomial tree sends to 1, 2, 4, ... in separate steps.
Plans binomialBroadcast(int ranks) {
  const Spec spec{.collective = Collective::broadcast, .ranks = ranks};
  Plans plans;
  for (int r = 0; r < ranks; ++r) {
    Builder plan(spec, r);
    auto lane = plan.lane();
    int bit = 1;
    if (r == 0) {
      lane.copy(in(0), out(0));
    } else {
      bit = static_cast<int>(std::bit_floor(static_cast<unsigned>(r)));
      lane.recv(r - bit, out(0));
      bit *= 2;
    }
    for (; r + bit < ranks; bit *= 2) lane.send(out(0), r + bit);
    plans.push_back(plan.take());
  }
  return plans;
}

/// All ranks send to rank 0, which receives in one step or in one step per rank.
Plans gatherAtRoot(int ranks, bool one_step) {
  const Spec spec{.collective = Collective::reduce, .ranks = ranks};
  Plans plans;
  for (int r = 0; r < ranks; ++r) {
    Builder plan(spec, r);
    auto lane = plan.lane();
    if (r > 0) {
      lane.send(in(0), 0);
    } else if (one_step) {
      auto sum = lane.step().with(in(0)).to(out(0));
      for (int q = 1; q < ranks; ++q) sum.recv(q);
    } else {
      for (int q = 1; q < ranks; ++q) {
        lane.step().with(q == 1 ? in(0) : out(0)).recv(q).to(out(0));
      }
    }
    plans.push_back(plan.take());
  }
  return plans;
}

} // namespace

TEST_CASE("rounds follow the rule of count.h") {
  for (int p = 2; p <= 40; ++p) {
    CAPTURE(p);
    const int levels = static_cast<int>(std::bit_width(static_cast<unsigned>(p - 1)));
    CHECK(count(binomialBroadcast(p)).rounds == levels);
    CHECK(count(gatherAtRoot(p, true)).rounds == 1);      // a step may receive from many ranks
    CHECK(count(gatherAtRoot(p, false)).rounds == p - 1); // the steps of a lane take turns
    CHECK(count(testing::threeLaneRing(p)).rounds == 2 * (p - 1)); // `after` passes rounds on
  }
}

TEST_CASE("bytes, messages and wires are sums over the steps") {
  for (int p = 2; p <= 17; ++p) {
    CAPTURE(p);
    const Counts ring = count(testing::threeLaneRing(p));
    CHECK(ring.total_sent == Approx(2.0 * (p - 1)));
    CHECK(ring.max_sent == Approx(2.0 * (p - 1) / p));
    CHECK(ring.transfers.size() == static_cast<std::size_t>(2 * p * (p - 1)));
    for (const RankCount& rank : ring.ranks) {
      CHECK(rank.sent == rank.received);
      CHECK(rank.messages_sent == 2 * (p - 1));
      CHECK(rank.messages_received == 2 * (p - 1));
      CHECK((rank.wires_out == 1 && rank.wires_in == 1 && rank.wires == std::min(2, p - 1)));
    }
    for (const double load : ring.wireLoad()) CHECK(load == Approx(1.0 / p));
    for (const double load : ring.portLoad()) CHECK(load == Approx(1.0 / p));

    const Counts star = count(gatherAtRoot(p, true));
    CHECK(star.ranks[0].received == p - 1);
    CHECK((star.ranks[0].wires_in == p - 1 && star.ranks[0].wires_out == 0));
    CHECK(star.wireLoad() == std::vector<double>{1});
    CHECK(star.portLoad() == std::vector<double>{static_cast<double>(p - 1)});
  }
}

TEST_CASE("the critical path is the alpha-beta cost") {
  constexpr double kAlpha = 3, kBeta = 0.25, kBytes = 64;
  for (int p = 2; p <= 17; ++p) {
    CAPTURE(p);
    const int levels = static_cast<int>(std::bit_width(static_cast<unsigned>(p - 1)));
    CHECK(criticalPath(testing::threeLaneRing(p), kAlpha, kBeta, kBytes) ==
          Approx(2 * (p - 1) * (kAlpha + kBytes / p * kBeta)));
    CHECK(criticalPath(binomialBroadcast(p), 0, kBeta, kBytes) == Approx(levels * kBytes * kBeta));
    // Messages to one rank arrive together but queue for its port.
    CHECK(criticalPath(gatherAtRoot(p, true), kAlpha, kBeta, kBytes) ==
          Approx(kAlpha + (p - 1) * kBytes * kBeta));
  }
}

TEST_CASE("the lecture tables: counted equals formula in every cell, for any number of ranks") {
  for (int p = 2; p <= 33; ++p) {
    for (const double bytes : {1.0, 1e6, 1048576.0}) {
      for (const Table& table : lectureTables(p, bytes)) {
        INFO(text(table));
        CHECK(table.equal());
        CHECK(text(table).find("counted = formula in every cell") != std::string::npos);
        CHECK(text(table).find("DIFFERS") == std::string::npos);
      }
    }
  }
}

TEST_CASE("the lecture tables at 8 ranks hold the lectures' own numbers") {
  const auto tables = lectureTables(8, 1 << 20);
  REQUIRE(tables.size() == 2);
  const auto counted = [&](std::size_t table, const std::string& quantity,
                           const std::string& system) {
    for (const TableCell& cell : tables[table].cells) {
      if (cell.quantity == quantity && cell.system == system) return cell.counted;
    }
    return -1.0;
  };
  constexpr double kM = 1 << 20;
  CHECK(counted(0, "wires of a worker", "tree") == 3);
  CHECK(counted(0, "wires of a worker", "butterfly") == 3);
  CHECK(counted(0, "wires of a worker", "naive") == 7);
  CHECK(counted(0, "rounds", "ring") == 14);
  CHECK(counted(0, "rounds", "tree") == 6);
  CHECK(counted(0, "data a worker sends in a round", "ring") == kM / 8);
  CHECK(counted(0, "data a worker sends in a round", "naive") == 7 * kM);
  CHECK(counted(0, "data sent by all", "parameter server") == 14 * kM);
  CHECK(counted(0, "data sent by all", "butterfly") == 24 * kM);
  CHECK(counted(1, "latency (alphas)", "Allgather") == 3);
  CHECK(counted(1, "bandwidth (bytes on the path)", "PS") == 14 * kM);
}

TEST_CASE("a differing cell is found and reported") {
  auto table = lectureTables(4, 1024)[0];
  table.cells[3].counted += 1;
  CHECK_FALSE(table.cells[3].equal());
  CHECK_FALSE(table.equal());
  CHECK(text(table).find("DIFFERS FROM") != std::string::npos);
  CHECK(text(table).find("1 cells differ") != std::string::npos);
}

TEST_CASE("tables refuse too few ranks or bytes") {
  CHECK_THROWS_AS(lectureTables(1, 1024), Error);
  CHECK_THROWS_AS(lectureTables(8, 0), Error);
}
