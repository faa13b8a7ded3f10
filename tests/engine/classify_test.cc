// How steps move their data: what the engine decides once for each plan.
#include <memory>
#include <utility>
#include <vector>

#include "engine/bound_plan.h"
#include "engine/step.h"
#include "plan/registry.h"
#include "support/test.h"
#include "transports/tuning.h"

namespace rondo::test {
namespace {

/// A transport with slots. Classifying opens no channel.
class Slots final : public transport::Transport {
 public:
  std::string_view name() const override { return "slots"; }
  transport::Address address() const override { return {}; }
  std::size_t slotBytes() const override { return 128 << 10; }
  bool mapped() const override { return true; }
  bool reaches(const transport::Address&) const override { return true; }
  std::unique_ptr<transport::PendingPort> open(const transport::ChannelId&,
                                               const transport::Address&) override {
    return nullptr;
  }
};

/// BoundStep::take_below of the steps of rank 1 of 2 that receive.
std::vector<std::size_t> takeBelow(Collective collective, const char* algorithm) {
  std::vector<std::unique_ptr<transport::Transport>> transports;
  transports.push_back(std::make_unique<Slots>());
  std::vector<engine::Fabric::Peer> peers(2);
  peers[0].transport = transports[0].get();
  engine::Fabric fabric(1, 1, std::move(transports), std::move(peers), 128 << 10, false);
  const plan::RankPlan plan = plan::findAlgorithm(algorithm)->build({collective, 2, 0, 0}, 1);
  engine::BoundPlan bound = engine::bind(plan, {(64 << 10) / 4, DataType::int32}, fabric);
  engine::StepRunner(fabric, {}).classify(bound);
  std::vector<std::size_t> found;
  for (const engine::BoundLane& lane : bound.last)
    for (const engine::BoundStep& step : lane)
      for (const engine::BoundOperand& input : step.inputs)
        if (input.wire) found.push_back(step.take_below);
  return found;
}

} // namespace

// Proves: a receiver takes the lines of bodies of 64 KiB, too, where the call only moves data, and
// no others of that size.
TEST_CASE("receivers take the lines of larger bodies in calls that only move data", "[classify]") {
  using transport::kLargeBodyBytes, transport::kTakeStoredBelow;
  for (const Collective moves : {Collective::allgather, Collective::alltoall}) {
    const auto found = takeBelow(moves, "direct");
    REQUIRE(found.size() == 1);
    CHECK(found[0] == kTakeStoredBelow);
  }
  CHECK(kTakeStoredBelow > kLargeBodyBytes);
  const auto reduced = takeBelow(Collective::allreduce, "direct");
  REQUIRE(reduced.size() == 2);
  CHECK(reduced == std::vector<std::size_t>(2, kLargeBodyBytes));
}

} // namespace rondo::test
