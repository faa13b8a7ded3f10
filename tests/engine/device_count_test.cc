// The counts and predictions for calls on devices, compared with closed forms.
#include "engine/device_count.h"

#include "plan/registry.h"
#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace engine;

constexpr std::size_t kCount = 64 << 20; // of float32: 256 MiB

DeviceCounts counted(const char* algorithm, int ranks, std::size_t count,
                     const DeviceMachine& machine) {
  return countOnDevices(*plan::findAlgorithm(algorithm),
                        {.collective = Collective::allreduce, .ranks = ranks}, count,
                        DataType::float32, machine);
}

constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 7, 8};

} // namespace

// Proves: for AllReduce by `direct` among ranks that share a GPU, steps, messages, fences and bytes
// equal the closed forms. Each tile pushes, owns and pulls in a bundle; each of these takes one
// fence. If messages are lent, an owner reads p parts and writes the result to all outputs, which
// is the bound. If they are sent, each part is also written to a slot and read there.
TEST_CASE("device counts: direct equals its closed forms") {
  for (const int ranks : kRankCounts) {
    INFO(ranks << " ranks");
    const double p = ranks, whole = kCount * sizeof(float);
    const DeviceCounts lent =
        counted("direct", ranks, kCount, {.ranks_on_device = ranks, .lends = true});
    const DeviceCounts sent = counted("direct", ranks, kCount, {.ranks_on_device = ranks});
    CHECK(lent.bound_bytes == 2 * p * whole);
    CHECK(lent.dependent_steps == (ranks == 1 ? 1 : 3));
    CHECK(lent.memory_bytes == 2 * p * whole);
    CHECK(lent.ofBound() == 1);
    CHECK(sent.memory_bytes == (ranks == 1 ? 2 : 6 * p - 4) * whole);
    const auto of_a_tile = static_cast<std::uint64_t>(2 * ranks * (ranks - 1));
    for (const DeviceCounts& one : {lent, sent}) {
      CHECK(!one.packets);
      CHECK(one.messages == one.tiles * of_a_tile);
      CHECK(one.fences == (ranks == 1 ? 0 : one.tiles * static_cast<std::uint64_t>(3 * ranks)));
      CHECK(one.turns == (one.tiles + one.blocks - 1) / one.blocks);
    }
    CHECK(lent.tiles <= sent.tiles); // lent messages are larger
  }
}

// Proves: a small call uses packets, which need no flag: owners and pulling ranks return slots with
// one fence each, and slots hold twice the bytes.
TEST_CASE("device counts: packets take a fence only where slots are returned") {
  for (const int ranks : {2, 3, 4, 5, 7, 8}) {
    INFO(ranks << " ranks");
    const DeviceCounts one = counted("direct", ranks, 1024, {.ranks_on_device = ranks});
    CHECK(one.packets);
    CHECK(one.tiles == 1);
    CHECK(one.dependent_steps == 3);
    CHECK(one.fences == static_cast<std::uint64_t>(2 * ranks));
    CHECK(one.fencesPerMessage() == 1.0 / (ranks - 1));
    // Pushed parts 1 + 2, the owner's 1 + 2 (p - 1) + 1 + 2 (p - 1), copies 2 + 1.
    CHECK(one.memory_bytes == (10 * ranks - 8) * 1024.0 * sizeof(float));
  }
}

// Proves: for no number of ranks, algorithm or size do the counts have more blocks than the ranks'
// shares, fewer bytes than the bound (if ranks only read and write), or an empty chain of steps.
// Too many ranks on a device are refused as by the engine.
TEST_CASE("device counts: every algorithm's counts fit the device") {
  for (const plan::Algorithm* algorithm : plan::algorithms())
    for (const int ranks : kRankCounts) {
      const plan::Spec spec{.collective = Collective::allreduce, .ranks = ranks};
      if (!algorithm->supports(spec)) continue;
      for (const std::size_t count : {0, 1, 1000, 1'000'000}) {
        INFO(algorithm->name << ", " << ranks << " ranks, " << count);
        const DeviceMachine machine{.ranks_on_device = ranks};
        const DeviceCounts one = countOnDevices(*algorithm, spec, static_cast<std::size_t>(count),
                                                DataType::float32, machine);
        CHECK(one.blocks * static_cast<std::uint64_t>(ranks) <= 132 - 132 / 16);
        CHECK(one.dependent_steps >= 1);
        CHECK(one.memory_bytes >= one.bound_bytes);
      }
    }
  CHECK_THROWS_AS(counted("direct", 8, kCount, {.multiprocessors = 4, .ranks_on_device = 8}),
                  Error);
}

// Proves: each term of the prediction is its count times its rate. The total is the launch plus the
// longest term.
TEST_CASE("device counts: the time is launch, steps, moving, memory and links") {
  DeviceCounts counts;
  counts.turns = 10;
  counts.dependent_steps = 3;
  counts.lane_bytes = 5e6;
  counts.memory_bytes = 8e9;
  counts.link_bytes = 3e9;
  const DeviceRates rates{.launch_us = 4,
                          .step_us = 2,
                          .packet_step_us = 1,
                          .block_gbs = 50,
                          .memory_gbs = 1000,
                          .link_gbs = 100};
  const DeviceTime shared = predictOnDevices(counts, {.ranks_on_device = 4}, 4, rates);
  CHECK(shared.steps == 60);
  CHECK(shared.moving == 1000);
  CHECK(shared.memory == 8000);
  CHECK(shared.link == 0);
  CHECK(shared.total() == 8004);
  const DeviceTime apart = predictOnDevices(counts, {.ranks_on_device = 1}, 4, rates);
  CHECK(apart.memory == 2000);
  CHECK(apart.link == 30000);
  CHECK(apart.total() == 30004);
  counts.packets = true;
  CHECK(predictOnDevices(counts, {.ranks_on_device = 4}, 4, rates).steps == 30);
}

} // namespace rondo::test
