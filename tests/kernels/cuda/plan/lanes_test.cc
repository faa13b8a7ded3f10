// Plans whose lanes depend on each other. No registered algorithm has such plans.
#include "engine/device_program.h"
#include "kernels/cuda/plan/collective_call.h"
#include "plan/builder.h"
#include "plan/check.h"
#include "plan/facts.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using device::Protocol;

/// A broadcast down the ranks, in which one lane receives into scratch and the other lane sends on.
plan::RankPlan relay(const plan::Spec& spec, int rank) {
  plan::Builder plan(spec, rank);
  auto taking = plan.lane();
  auto passing = plan.lane();
  auto take = taking.step();
  if (rank == 0) take.with(plan::in(0));
  else take.recv(rank - 1);
  take.to(plan::scratch(0));
  auto pass = passing.copy(plan::scratch(0), plan::out(0)).after(take);
  if (rank + 1 < spec.ranks) pass.send(rank + 1);
  return plan.take();
}

const plan::Algorithm kRelay{
    .name = "relay",
    .summary = "one lane takes, the other passes on",
    .supports =
        [](const plan::Spec& spec) {
          return spec.collective == Collective::broadcast && spec.root == 0;
        },
    .cost = [](const plan::Spec&, const plan::Link&, double) { return 0.0; },
    .closedForm =
        [](const plan::Spec& spec) {
          return plan::ClosedForm{spec.ranks - 1, spec.ranks - 1.0, 1.0};
        },
    .build = relay,
};

} // namespace

// Proves: a lane's step waits for the step of another lane that it names, in every tile and every
// launch. No lane enters a tile whose scratch another lane still uses.
TEST_CASE("lanes wait for each other's steps, and share scratch tile by tile") {
  for (std::uint64_t depth : {1u, 8u})
    for (std::uint32_t copies : {1u, 2u}) {
      const int ranks = 3;
      REQUIRE(plan::check(kRelay, {Collective::broadcast, ranks, 0, 0}).text() == "");
      World world(ranks, {Protocol::simple, depth, 64}, {.copies = copies});
      std::vector<Call> calls;
      for (std::size_t count : {0, 1, 517})
        for (bool in_place : {false, true})
          calls.push_back(callOf(kRelay,
                                 {.collective = Collective::broadcast,
                                  .count = count,
                                  .type = DataType::int32,
                                  .in_place = in_place},
                                 ranks));
      REQUIRE(world.run(calls, kWholeGrid ? 20 : 4) == "");
    }
}

// Proves: low latency refuses plans of several lanes, because its packets do not order their
// accesses.
TEST_CASE("low latency refuses plans of several lanes") {
  CHECK_FALSE(plan::Facts(kRelay, {Collective::broadcast, 2, 0, 0}).oneLane());
  CHECK(plan::Facts(*plan::findAlgorithm("ring"), {Collective::allreduce, 4, 0, 0}).oneLane());
  World world(2, {Protocol::low_latency, 1, 64});
  const CollectiveCase one{
      .collective = Collective::broadcast, .count = 1, .type = DataType::int32};
  CHECK_THROWS_AS(world.run({callOf(kRelay, one, 2)}), Error);
}

} // namespace rondo::test
