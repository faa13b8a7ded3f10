// How steps move their data: what the engine decides once for each plan.
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "engine/bound_plan.h"
#include "engine/step.h"
#include "plan/registry.h"
#include "support/test.h"
#include "tests/engine/slots.h"
#include "transports/slot_ring.h"
#include "transports/tuning.h"

namespace rondo::test {
namespace {

/// Calls `look` with each step of a rank of 2, for blocks of `bytes`.
void forEachStep(Collective collective, const char* algorithm, int rank,
                 const std::function<void(const engine::BoundStep&)>& look,
                 std::size_t bytes = 64 << 10) {
  std::vector<std::unique_ptr<transport::Transport>> transports;
  transports.push_back(std::make_unique<Slots>());
  std::vector<engine::Fabric::Peer> peers(2);
  peers[static_cast<std::size_t>(1 - rank)].transport = transports[0].get();
  engine::Fabric fabric(rank, 1, std::move(transports), std::move(peers), 128 << 10, false);
  const plan::RankPlan plan = plan::findAlgorithm(algorithm)->build({collective, 2, 0, 0}, rank);
  engine::BoundPlan bound = engine::bind(plan, {bytes / 4, DataType::int32}, fabric);
  // What the channels would have if they were open.
  base::AlignedBuffer memory(transport::SlotRing::bytesNeeded(2, 1024));
  std::memset(memory.data(), 0, memory.size());
  transport::SlotRing ring(memory.data(), 2, 1024, {});
  for (engine::BoundLane& lane : bound.last)
    for (engine::BoundStep& step : lane) {
      for (engine::End* end : step.sends) end->ring = &ring;
      for (engine::BoundOperand& input : step.inputs)
        if (input.wire) input.wire->ring = &ring;
    }
  engine::StepRunner(fabric, {}).classify(bound);
  for (const engine::BoundLane& lane : bound.last)
    for (const engine::BoundStep& step : lane) look(step);
}

/// BoundStep::take_below of the steps of rank 1 of 2 that receive.
std::vector<std::size_t> takeBelow(Collective collective, const char* algorithm) {
  std::vector<std::size_t> found;
  forEachStep(collective, algorithm, 1, [&](const engine::BoundStep& step) {
    for (const engine::BoundOperand& input : step.inputs)
      if (input.wire) found.push_back(step.take_below);
  });
  return found;
}

/// Whether all steps of a rank that send publish their messages before the bodies; nothing if there
/// are no such steps, or they differ.
std::optional<bool> sendsEarly(Collective collective, const char* algorithm, int rank) {
  std::set<bool> found;
  forEachStep(collective, algorithm, rank, [&](const engine::BoundStep& step) {
    if (!step.sends.empty()) found.insert(step.sends_early);
  });
  return found.size() == 1 ? std::optional(*found.begin()) : std::nullopt;
}

} // namespace

// Proves: a sender publishes large messages early where data move in one direction, and nowhere
// else: a peer that sends at the same time cannot copy meanwhile.
TEST_CASE("messages of one-way calls are published before their bodies", "[classify]") {
  CHECK(sendsEarly(Collective::broadcast, "linear", 0) == true);
  CHECK(sendsEarly(Collective::scatter, "linear", 0) == true);
  CHECK(sendsEarly(Collective::gather, "linear", 1) == true);
  CHECK(sendsEarly(Collective::allgather, "direct", 0) == false);
  CHECK(sendsEarly(Collective::alltoall, "direct", 0) == false);
  CHECK(sendsEarly(Collective::allreduce, "direct", 0) == false);
}

// Proves: a receiver takes the lines of bodies of 64 KiB, too, where the call only moves data, and
// no others of that size.
TEST_CASE("receivers take the lines of larger bodies in calls that only move data", "[classify]") {
  using transport::kLargeBodyBytes, transport::kTakeMovedBelow;
  for (const Collective moves : {Collective::allgather, Collective::alltoall}) {
    const auto found = takeBelow(moves, "direct");
    REQUIRE(found.size() == 1);
    CHECK(found[0] == kTakeMovedBelow);
  }
  CHECK(kTakeMovedBelow > kLargeBodyBytes);
  const auto reduced = takeBelow(Collective::allreduce, "direct");
  REQUIRE(reduced.size() == 2);
  CHECK(reduced == std::vector<std::size_t>(2, kLargeBodyBytes));
}

// Proves: the result of a reduction is copied to the peer's slot if its message has 64 KiB: the
// receiver takes the lines of smaller ones. Data that a step only moves is not copied twice.
TEST_CASE("large results of reductions are copied to the peers' slots", "[classify]") {
  const auto copies = [](Collective collective, std::size_t bytes) {
    std::vector<bool> found;
    forEachStep(
        collective, "direct", 0,
        [&](const engine::BoundStep& step) {
          if (!step.sends.empty()) found.push_back(step.copies_result);
        },
        bytes);
    return found;
  };
  const bool pays = transport::takingLinesPays();
  CHECK(copies(Collective::allreduce, 128 << 10) == std::vector<bool>{false, pays});
  CHECK(copies(Collective::allreduce, 64 << 10) == std::vector<bool>{false, false});
  CHECK(copies(Collective::allgather, 128 << 10) == std::vector<bool>{false});
}

} // namespace rondo::test
