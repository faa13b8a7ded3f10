// Tests the printed form of plans.
#include "plan/print.h"
#include "plan/builder.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "subjects.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("steps are printed as verbs, pieces and peers in columns") {
  // Every form of step that has different verbs.
  Builder plan({.collective = Collective::allreduce, .ranks = 4}, 0, 4);
  auto lane = plan.lane();
  lane.send(in(0), 1);
  lane.step().recv(3).with(in(3)).send(1);
  lane.step().recv(3).with(in(1)).to(out(1)).send(1);
  lane.step().recv(3).to(out(0)).send(1);
  lane.recv(3, out(2));
  lane.step().recv(3).send(1).shaped(in(3));
  lane.step().recv(2).with(in(2)).recv(3).to(scratch(6)).send(1).send(2, 5);
  lane.copy(in(0, 2), out(0, 2));
  CHECK(describeSteps(plan.take()) ==
        "rank 0   send                  in[0]                 -> 1\n"
        "         recv+reduce+send      in[3]               3 -> 1\n"
        "         recv+reduce+copy+send in[1]=>out          3 -> 1\n"
        "         recv+copy+send        out[0]              3 -> 1\n"
        "         recv                  out[2]              3 ->\n"
        "         recv+send             [3]                 3 -> 1\n"
        "         recv+reduce+copy+send in[2]=>scratch[6] 2,3 -> 1,2#5\n"
        "         copy                  in[0..1]=>out\n");
}

TEST_CASE("lanes and their dependencies are named") {
  const auto text = describeSteps(threeLaneRing(2)[1]);
  CHECK(contains(text, "rank 1   lane 0  recv"));
  CHECK(contains(text, "lane 1  reduce"));
  CHECK(contains(text, "after lane 0 step 0"));
}

TEST_CASE("explain() prints counts and proofs") {
  const Algorithm& one = *findAlgorithm("oneshot");
  const Spec spec{Collective::allreduce, 3, 0, 0};
  const auto text = explain(one, spec);
  CHECK(text.starts_with("oneshot: " + std::string(one.summary) + "\n"));
  CHECK(contains(text,
                 "3 ranks, 1 chunk, 1 round, each rank sends 2 n over 2 wires and receives "
                 "over 2; checked at depth 1, 2, 8\n"));
  for (const char* rank : {"rank 0 ", "rank 1 ", "rank 2 "}) CHECK(contains(text, rank));
  CHECK(contains(text, "reduced in rank order, in one pass (chunk 0: 0 + 1 + 2)"));
  CHECK(contains(explain(one, spec, {.depths = {4}}), "checked at depth 4\n"));
}

TEST_CASE("every algorithm can be explained, and chosen ranks limit what is shown") {
  for (const Collective collective : kCollectives) {
    for (const int ranks : {1, 2, 5, 20}) {
      for (const Algorithm* algorithm : supporting({collective, ranks, 0, 0})) {
        const Spec spec{collective, ranks, 0, 0};
        const auto all = explain(*algorithm, spec, {.rounds = true});
        CAPTURE(all);
        CHECK(contains(all, "checked at depth 1, 2, 8\n"));
        CHECK(contains(all, "round 1") == (ranks > 1));
        CHECK(contains(all, "and 12 ranks more") == (ranks == 20));
        const auto last = explain(*algorithm, spec, {.ranks = {ranks - 1}});
        CHECK(contains(last, "\nrank " + std::to_string(ranks - 1) + " "));
        CHECK((ranks == 1 || !contains(last, "\nrank 0 ")));
      }
    }
  }
  const Algorithm& one = *findAlgorithm("oneshot");
  for (const int rank : {-1, 4}) {
    CHECK_THROWS_AS(explain(one, {Collective::allreduce, 4, 0, 0}, {.ranks = {rank}}), Error);
  }
}

TEST_CASE("tiles are printed for blocks of any size") {
  const RankPlan plan = findAlgorithm("ring")->build({Collective::allreduce, 4, 0, 0}, 0);
  CHECK(describeTiles(plan, 1000, 1024) ==
        "blocks of 1000 B: 1 tile of 1000 B, messages of up to 250 B\n");
  CHECK(describeTiles(plan, 10240, 1024) ==
        "blocks of 10240 B: 3 tiles of 3584 B, messages of up to 896 B\n");
}

TEST_CASE("rounds name each message once") {
  const auto counts = count(threeLaneRing(3));
  CHECK(describeRounds(counts) ==
        "round 1  0 -> 1 [0], 1 -> 2 [1], 2 -> 0 [2]\n"
        "round 2  0 -> 1 [2], 1 -> 2 [0], 2 -> 0 [1]\n"
        "round 3  0 -> 1 [1], 1 -> 2 [2], 2 -> 0 [0]\n"
        "round 4  0 -> 1 [0], 1 -> 2 [1], 2 -> 0 [2]\n");
  const std::vector<int> chosen{0};
  CHECK(contains(describeRounds(counts, chosen), "round 1  0 -> 1 [0], 2 -> 0 [2]\n"));
}

} // namespace rondo::test
