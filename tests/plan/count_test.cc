// Compares rounds, bytes and wires with formulas.
#include <bit>

#include "plan/builder.h"
#include "plan/count.h"
#include "subjects.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

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
    CHECK(count(threeLaneRing(p)).rounds == 2 * (p - 1)); // `after` passes rounds on
  }
}

TEST_CASE("bytes, messages and wires are sums over the steps") {
  for (int p = 2; p <= 17; ++p) {
    CAPTURE(p);
    const Counts ring = count(threeLaneRing(p));
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

    const Counts star = count(gatherAtRoot(p, true));
    CHECK(star.ranks[0].received == p - 1);
    CHECK((star.ranks[0].wires_in == p - 1 && star.ranks[0].wires_out == 0));
    CHECK(star.wireLoad() == std::vector<double>{1});
  }
}

} // namespace rondo::test
