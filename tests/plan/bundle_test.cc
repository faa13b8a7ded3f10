// Tests which steps are done as one, and that plans still have no deadlock.
#include "plan/bundle.h"

#include <string>

#include "plan/builder.h"
#include "plan/check.h"
#include "plan/graph.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

/// The sizes of a lane's bundles.
std::string bundlesOf(const RankPlan& plan, std::uint32_t lane = 0) {
  const Bundles bundles(plan);
  std::string text;
  for (std::uint32_t s = 0; s < plan.lanes[lane].steps.size(); ++s)
    if (const std::uint32_t size = bundles.size(lane, s))
      text += (text.empty() ? "" : " ") + std::to_string(size);
  return text;
}

RankPlan planOf(std::string_view name, Collective collective, int ranks) {
  return findAlgorithm(name)->build({.collective = collective, .ranks = ranks}, 0);
}

} // namespace

TEST_CASE("direct pushes, owns and pulls in three bundles, with many ranks in a few", "[bundle]") {
  CHECK(bundlesOf(planOf("direct", Collective::allreduce, 2)) == "1 1 1");
  CHECK(bundlesOf(planOf("direct", Collective::allreduce, 8)) == "7 1 7");
  CHECK(bundlesOf(planOf("direct", Collective::reducescatter, 8)) == "7 1");
  CHECK(bundlesOf(planOf("direct", Collective::allgather, 8)) == "1 7");
  CHECK(bundlesOf(planOf("direct", Collective::allreduce, 20)) == "16 3 1 16 3");
  // Each step of a ring needs the one before.
  CHECK(bundlesOf(planOf("ring", Collective::allreduce, 4)) == "1 1 1 1 1 1 1");
}

TEST_CASE("a bundle ends before a step that something else depends on", "[bundle]") {
  const Spec spec{.collective = Collective::alltoall, .ranks = 4};
  const auto sends = [&](const auto& change) {
    Builder plan(spec, 0);
    auto lane = plan.lane(), other = plan.lane();
    StepWriter steps[] = {lane.send(in(1), 1), lane.send(in(2), 2), lane.send(in(3), 3)};
    change(lane, other, steps);
    return bundlesOf(plan.take());
  };
  CHECK(sends([](auto&, auto&, auto&) {}) == "3");
  // A dependency on another lane's step, or of another lane's step on this one.
  CHECK(sends([](auto&, auto& other, auto* steps) { steps[1].after(other.copy(in(0), out(0))); }) ==
        "1 2");
  CHECK(sends([](auto&, auto& other, auto* steps) { other.copy(in(0), out(0)).after(steps[1]); }) ==
        "2 1");
  CHECK(sends([](auto& lane, auto&, auto*) {
          lane.copy(in(0), out(0));
          lane.send(in(0), 1, 1);
        }) == "3 1 1");
  // Two messages of a tile on one channel: the second may need a slot that the first occupies.
  CHECK(sends([](auto& lane, auto&, auto*) { lane.send(in(1), 1); }) == "1 2 1");
}

TEST_CASE("receives into the same place keep their order", "[bundle]") {
  Builder plan({.collective = Collective::allgather, .ranks = 4}, 0);
  auto lane = plan.lane();
  lane.recv(1, out(1));
  lane.recv(2, out(1));
  lane.recv(3, out(3));
  CHECK(bundlesOf(plan.take()) == "1 2");
}

TEST_CASE("bundles form no cycle, at any depth, in plans of up to 128 ranks", "[bundle]") {
  for (const Algorithm* algorithm : algorithms())
    for (const Collective collective : kCollectives)
      for (const int ranks : {2, 3, 4, 5, 7, 8, 16, 17, 33, 128}) {
        const Spec spec{.collective = collective, .ranks = ranks};
        if (collective == Collective::sendrecv || !algorithm->supports(spec)) continue;
        if (ranks > 33 && algorithm->name != "direct") continue;
        const std::vector<RankPlan> plans = buildAll(*algorithm, spec);
        std::vector<std::string> complaints;
        const Graph graph(plans, complaints, 1);
        const std::vector<std::uint32_t> bundled = bundledNodes(graph);
        INFO(algorithm->name << ' ' << name(collective) << ", " << ranks << " ranks");
        for (const int depth : {1, 2, 8})
          CHECK(graph.order(depth, bundled).size() == graph.nodes().size());
      }
}

TEST_CASE("the order finds a cycle that exists only between bundles", "[bundle]") {
  // Each rank sends and then receives. As one bundle, each would wait for the other to begin.
  const Spec spec{.collective = Collective::allgather, .ranks = 2};
  std::vector<RankPlan> plans;
  for (const int rank : {0, 1}) {
    Builder plan(spec, rank);
    auto lane = plan.lane();
    lane.send(in(0), 1 - rank);
    lane.recv(1 - rank, out(1 - rank));
    plans.push_back(plan.take());
  }
  std::vector<std::string> complaints;
  const Graph graph(plans, complaints, 1);
  CHECK(graph.order(1).size() == 4);
  CHECK(graph.order(1, std::vector<std::uint32_t>{0, 0, 2, 2}).empty());
  CHECK(graph.order(1, bundledNodes(graph)).size() == 4);
}

} // namespace rondo::test
