// Closed forms and costs agree with the formulas of the literature.
#include <algorithm>
#include <cmath>

#include "plan/patterns.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

bool near(double found, double expected) {
  return std::abs(found - expected) <= 1e-9 * std::max(1.0, std::abs(expected));
}

ClosedForm form(const char* algorithm, Collective collective, int ranks, int parameter = 0) {
  return findAlgorithm(algorithm)->closedForm({collective, ranks, 0, parameter});
}

void require(const char* algorithm, Collective collective, int ranks, int rounds, double total,
             double most, int parameter = 0) {
  CAPTURE(algorithm, name(collective), ranks, parameter);
  const ClosedForm found = form(algorithm, collective, ranks, parameter);
  CHECK(found.rounds == rounds);
  CHECK(near(found.total_sent, total));
  CHECK(near(found.max_sent, most));
}

} // namespace

TEST_CASE("closed forms equal the literature's for powers of two") {
  for (int k = 1; k <= 7; ++k) {
    const int p = 1 << k;
    const double n = p; // number of blocks
    using enum Collective;
    require("oneshot", allreduce, p, 1, n * (n - 1), n - 1);
    require("ring", allreduce, p, 2 * (p - 1), 2 * (n - 1), 2 * (n - 1) / n);
    require("direct", allreduce, p, 2 * (p - 1), 2 * (n - 1), 2 * (n - 1) / n);
    require("tree", allreduce, p, 2 * k, 2 * (n - 1), k);
    require("double_tree", allreduce, p, 2 * k, 2 * (n - 1), p == 2 ? 1 : 2);
    require("butterfly", allreduce, p, k, n * k, k);
    require("halving_doubling", allreduce, p, 2 * k, 2 * (n - 1), 2 * (n - 1) / n);
    require("parameter_server", allreduce, p, 2, 2 * (n - 1), n - 1);
    require("parameter_server", allreduce, p, 2 * (p - 1), 2 * (n - 1), 2 * (n - 1) / n, p);
    require("ring", reducescatter, p, p - 1, n * (n - 1), n - 1);
    require("direct", reducescatter, p, p - 1, n * (n - 1), n - 1);
    require("halving", reducescatter, p, k, n * (n - 1), n - 1);
    require("ring", allgather, p, p - 1, n * (n - 1), n - 1);
    require("bruck", allgather, p, k, n * (n - 1), n - 1);
    require("tree", broadcast, p, k, n - 1, k);
    require("chain", broadcast, p, p - 1, n - 1, 1);
    require("scatter_allgather", broadcast, p, 2 * (p - 1), n - 1, 2 * (n - 1) / n);
    require("tree", reduce, p, k, n - 1, 1);
    require("chain", reduce, p, p - 1, n - 1, 1);
    require("linear", reduce, p, 1, n - 1, 1);
    require("linear", scatter, p, p - 1, n - 1, n - 1);
    require("linear", gather, p, p - 1, n - 1, 1);
    require("linear", gather, p, 1, n - 1, 1, p - 1);
    require("tree", scatter, p, k, n * k / 2, n - 1);
    require("tree", gather, p, k, n * k / 2, n / 2);
    require("pairwise", alltoall, p, p - 1, n * (n - 1), n - 1);
    require("direct", alltoall, p, p - 1, n * (n - 1), n - 1);
    require("bruck", alltoall, p, k, n * n * k / 2, n * k / 2);
    require("dissemination", barrier, p, k, 0, 0);
    for (const Collective scans : {scan, exclusivescan}) {
      require("oneshot", scans, p, 1, n * (n - 1) / 2, n - 1);
      require("chain", scans, p, p - 1, n - 1, 1);
    }
    require("hillis_steele", scan, p, k, n * k - (n - 1), k);
    require("hillis_steele", exclusivescan, p + 1, k + 1, n + n * k - (n - 1), k + 1);
  }
}

TEST_CASE("a fold costs two rounds, and 2n for each folded rank") {
  for (int p = 3; p <= 64; ++p) {
    const Fold fold(p);
    if (fold.extras == 0) continue;
    for (const char* algorithm : {"butterfly", "halving_doubling"}) {
      CAPTURE(algorithm, p);
      const ClosedForm inner = form(algorithm, Collective::allreduce, fold.size);
      const ClosedForm all = form(algorithm, Collective::allreduce, p);
      CHECK(all.rounds == inner.rounds + 2);
      CHECK(near(all.total_sent, inner.total_sent + 2 * fold.extras));
    }
  }
}

TEST_CASE("no algorithm beats the lower bounds of an all-reduce, and one rank needs nothing") {
  for (int p = 1; p <= 64; ++p) {
    for (const Algorithm* algorithm : supporting({Collective::allreduce, p, 0, 0})) {
      CAPTURE(algorithm->name, p);
      const ClosedForm found = algorithm->closedForm({Collective::allreduce, p, 0, 0});
      CHECK(found.total_sent >= 2.0 * (p - 1) - 1e-9);
      CHECK(found.max_sent * p >= found.total_sent - 1e-9);
      if (p == 1) CHECK((found.rounds == 0 && found.max_sent == 0));
    }
  }
}

TEST_CASE("costs are finite, zero for one rank, and grow with bytes and with each price") {
  for (const Collective collective : kCollectives) {
    for (int p = 1; p <= 40; ++p) {
      const Spec spec{collective, p, p / 2, 0};
      for (const Algorithm* algorithm : supporting(spec)) {
        CAPTURE(algorithm->name, name(collective), p);
        const auto cost = [&](double alpha, double beta, double gamma, double bytes) {
          return algorithm->cost(spec, {alpha, beta, gamma}, bytes);
        };
        const double base = cost(1, 1, 1, 100);
        REQUIRE(std::isfinite(base));
        if (p == 1) {
          CHECK(base == 0);
          continue;
        }
        CHECK(cost(2, 1, 1, 100) > base);
        CHECK(cost(1, 1, 2, 100) >= base);
        if (collective != Collective::barrier) {
          CHECK(cost(1, 2, 1, 100) > base);
          CHECK(cost(1, 1, 1, 200) > base);
        }
        // The last rank of an exclusive scan has p - 1 contributions to reduce.
        const int reduced =
            reduces(collective) ? traits(collective).contributorsTo(p - 1, 0, 0, p).end : 0;
        CHECK((cost(1, 1, 2, 100) > base) == (reduced > 1));
      }
    }
  }
}

} // namespace rondo::test
