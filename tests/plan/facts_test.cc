// Tests that facts are right, and computed once.
#include "plan/facts.h"

#include "plan/check.h"
#include "plan/plan_cache.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

int built = 0;

/// The algorithm, with a count of its builds.
Algorithm counting(const char* name) {
  static const Algorithm* of = nullptr;
  of = findAlgorithm(name);
  Algorithm algorithm = *of;
  algorithm.build = [](const Spec& spec, int rank) {
    ++built;
    return of->build(spec, rank);
  };
  built = 0;
  return algorithm;
}

} // namespace

TEST_CASE("a fact builds all plans when it is first asked for, and never again", "[facts]") {
  const Algorithm algorithm = counting("direct");
  Facts facts(algorithm, {Collective::allreduce, 5, 0, 0});
  CHECK(built == 0);
  for (int i = 0; i < 3; ++i) CHECK(facts.inRankOrder());
  CHECK(built == 5);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(facts.servesUneven());
  CHECK(built == 10);
  for (int i = 0; i < 3; ++i) CHECK(facts.oneLane());
  CHECK(built == 15);
  for (int i = 0; i < 3; ++i) {
    CHECK(facts.lending(false, false).always());
    CHECK_FALSE(facts.lending(true, false).always()); // the input lacks the multiplied values
  }
  CHECK(built == 25);
}

TEST_CASE("lanes are those of the rank that has most", "[facts]") {
  // Only the root of a Gather receives in several lanes.
  CHECK(Facts(*findAlgorithm("linear"), {Collective::gather, 6, 2, 3}).mostLanes() == 3);
  CHECK(Facts(*findAlgorithm("linear"), {Collective::gather, 6, 2, 0}).oneLane());
}

TEST_CASE("a rank's plan is built once for each spec, and alone", "[facts]") {
  const Algorithm algorithm = counting("tree");
  PlanCache plans(3);
  const Spec first{Collective::broadcast, 128, 0, 0}, second{Collective::broadcast, 128, 7, 0};
  for (int i = 0; i < 3; ++i)
    for (const Spec& spec : {first, second})
      REQUIRE(plans.of(algorithm, spec).plan() == findAlgorithm("tree")->build(spec, 3));
  CHECK(built == 2);
  CHECK(plans.of(algorithm, first).facts.oneLane());
  CHECK(built == 2 + 128);
}

TEST_CASE("a cache of plans stays small whatever the roots", "[facts]") {
  const Algorithm algorithm = counting("tree");
  PlanCache plans(0);
  for (int root = 0; root < 1000; ++root)
    REQUIRE(plans.of(algorithm, {Collective::broadcast, 1000, root, 0}).plan().spec.root == root);
  CHECK(built == 1000);
  const Spec last{Collective::broadcast, 1000, 999, 0};
  REQUIRE(plans.of(algorithm, last).plan().spec == last);
  CHECK(built == 1000);
}

} // namespace rondo::test
