// Tests which plans serve blocks of different sizes.
#include <set>
#include <string>

#include "plan/facts.h"
#include "plan/layout.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {

using namespace plan;

TEST_CASE("plans that move whole single blocks serve uneven ones, those that cut or bundle do not",
          "[uneven]") {
  for (const int ranks : {2, 3, 4, 8}) {
    std::set<std::string> serving;
    for (const Algorithm* algorithm : algorithms())
      for (const Collective collective : kCollectives)
        for (const int root : {0, ranks - 1}) {
          const Spec spec{collective, ranks, root, 0};
          if (algorithm->supports(spec) && Facts(*algorithm, spec).servesUneven())
            serving.insert(std::string(name(collective)) + " " + std::string(algorithm->name));
        }
    std::set<std::string> due = {"reducescatter ring", "reducescatter direct", "scatter linear",
                                 "gather linear",      "allgather ring",       "allgather direct",
                                 "alltoall pairwise",  "alltoall direct"};
    if (ranks <= 3)
      due.insert({"scatter tree", "gather tree"}); // no rank passes on another's block
    if (ranks == 2) due.insert("reducescatter halving");
    CHECK(serving == due);
  }
}

TEST_CASE("of the composed plans only those of allgather serve uneven blocks", "[uneven]") {
  const Algorithm& hierarchical = *findAlgorithm("hierarchical");
  for (const Collective collective : kCollectives) {
    const Spec spec{.collective = collective, .ranks = 4, .layout = parseLayout("2x2")};
    if (!hierarchical.supports(spec)) continue;
    INFO(name(collective));
    CHECK(Facts(hierarchical, spec).servesUneven() == (collective == Collective::allgather));
  }
}

TEST_CASE("a message that its receiver takes for another block is found", "[uneven]") {
  // Both ranks' blocks arrive, but at the wrong places of the output.
  static const auto build = [](const Spec& spec, int rank) {
    RankPlan plan = findAlgorithm("direct")->build(spec, rank);
    for (Lane& lane : plan.lanes)
      for (Step& step : lane.steps)
        if (!step.inputs[0].local()) step.output->chunk ^= 1;
    return plan;
  };
  Algorithm twisted = *findAlgorithm("direct");
  const Spec spec{Collective::allgather, 2, 0, 0};
  REQUIRE(Facts(twisted, spec).servesUneven());
  twisted.build = build;
  CHECK_FALSE(Facts(twisted, spec).servesUneven());
}

} // namespace rondo::test
