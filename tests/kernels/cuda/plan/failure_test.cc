// Failures of launches: deadline, abort, a peer in another call.
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cuda/plan/collective_call.h"
#include "plan/builder.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;
using device::Protocol;
using device::Report;

constexpr Protocol kProtocols[] = {Protocol::simple, Protocol::low_latency};

Call ring(int ranks, std::size_t count = 1000) {
  return callOf(*plan::findAlgorithm("ring"), {.count = count, .type = DataType::int32}, ranks);
}

/// The rank launches nothing and checks nothing.
void stayAway(Part& part) {
  part.plan.lanes.clear();
  part.plan.channels.clear();
  part.after = {};
}

} // namespace

// Proves: a missing message ends the launch at the deadline, with lane, step and peer.
TEST_CASE("a launch whose peer is missing ends at its deadline and names the peer") {
  for (Protocol protocol : kProtocols) {
    World world(2, {protocol, 1, 256});
    world.timeout = 50ms;
    Call call = ring(2);
    stayAway(call.parts[1]);
    const auto begin = std::chrono::steady_clock::now();
    world.run({call}, 1);
    CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
    CHECK(world.reported(0) ==
          "timeout: lane 0 step 1, tile 1 of 11, waiting to receive from rank 1");
    CHECK(world.reported(1) == "");

    // Proves: a failure is permanent. The next launch, and any replay of an old one, ends at once,
    // moves nothing and does not overwrite the report.
    world.timeout = 60s;
    const auto& ends = *world.channels().at({0, 1, 0});
    const auto sent = ends.sender.as<device::Position>()->number;
    Call again = ring(2);
    stayAway(again.parts[1]);
    world.run({again}, 2);
    CHECK(std::chrono::steady_clock::now() - begin < 30s);
    CHECK(ends.sender.as<device::Position>()->number == sent);
    CHECK(world.panel(0).report.reason == Report::Reason::timeout);
  }
}

// Proves: the report is complete when the host, which polls, sees that a launch has ended. Several
// threads give up at the same time, and one of them writes the report. The thread sanitizer finds
// races.
TEST_CASE("a host that polls reads one whole report") {
  World world(2, {Protocol::simple, 1, 256}, {.threads = 3, .copies = 2});
  world.timeout = 50ms;
  Call call = ring(2);
  stayAway(call.parts[1]);
  Report seen;
  {
    const std::jthread host([&] {
      auto& panel = world.panel(0);
      const auto until = std::chrono::steady_clock::now() + 30s;
      while (HostBlock::acquire<kernels::cuda::Scope::system>(&panel.ended) == 0 &&
             std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(1ms);
      seen = panel.report;
    });
    world.run({call}, 1);
  }
  CHECK(seen.reason == Report::Reason::timeout);
  const Report& last = world.panel(0).report;
  CHECK(last.block == seen.block);
  CHECK(last.step == seen.step);
  CHECK(last.tile == seen.tile);
}

// Proves: a full channel also ends the launch at the deadline.
TEST_CASE("a launch whose peer does not receive ends at its deadline") {
  for (Protocol protocol : kProtocols) {
    World world(2, {protocol, 2, 256});
    world.timeout = 50ms;
    Call call =
        callOf(*plan::findAlgorithm("chain"),
               {.collective = Collective::broadcast, .count = 1000, .type = DataType::int32}, 2);
    stayAway(call.parts[1]);
    world.run({call}, 1);
    CHECK(world.reported(0) ==
          "timeout: lane 0 step 0, tile 3 of 16, waiting until rank 1 receives");
  }
}

// Proves: a launch that could begin, because slots are free, does nothing after the host has given
// up.
TEST_CASE("a launch that lends and begins after an abort sends nothing") {
  World world(2, {Protocol::simple, 2, 256}, {.lends = true});
  for (int rank : {0, 1})
    HostBlock::release<kernels::cuda::Scope::system>(&world.panel(rank).abort, std::uint32_t{1});
  world.run({callOf(*plan::findAlgorithm("direct"), {.count = 1000, .type = DataType::int32}, 2)},
            1);
  for (int rank : {0, 1}) CHECK(world.panel(rank).report.reason == Report::Reason::aborted);
  for (const auto& [channel, ends] : world.channels())
    CHECK(ends->sender.as<device::Position>()->number == 0);
}

// Proves: lanes that wait for lanes also end at the deadline, and only one of them reports.
TEST_CASE("a launch whose lanes wait for each other ends at its deadline") {
  World world(1, {Protocol::simple, 1, 256});
  world.timeout = 50ms;
  Call call{"two lanes in a circle", std::vector<Part>(1)};
  plan::Builder builder({Collective::allreduce, 1, 0, 0}, 0);
  auto one = builder.lane(), other = builder.lane();
  auto first = one.copy(plan::in(0), plan::out(0));
  first.after(other.copy(plan::in(0), plan::out(0)).after(first));
  std::int32_t in = 1, out = 2;
  call.parts[0].plan = builder.take();
  call.parts[0].shape = {.count = 1, .type = DataType::int32};
  call.parts[0].input = &in;
  call.parts[0].output = &out;
  world.run({call}, 1);
  CHECK(out == 2);
  CHECK(world.panel(0).report.awaited == Report::Awaited::lane);
  const auto lane = world.panel(0).report.block;
  CHECK(world.reported(0) == "timeout: lane " + std::to_string(lane) +
                                 " step 0, tile 1 of 1, waiting for lane " +
                                 std::to_string(1 - lane));
}

// Proves: the host's abort ends all waiting lanes and threads of a launch, long before the
// deadline.
TEST_CASE("an abort ends a waiting launch") {
  for (Protocol protocol : kProtocols)
    for (std::uint32_t threads : {1u, 3u}) {
      World world(2, {protocol, 1, 256}, {.threads = threads});
      const char* algorithm = protocol == Protocol::simple ? "double_tree" : "ring";
      Call call =
          callOf(*plan::findAlgorithm(algorithm), {.count = 1000, .type = DataType::int32}, 2);
      stayAway(call.parts[1]);
      const auto begin = std::chrono::steady_clock::now();
      const std::jthread host([&world] {
        std::this_thread::sleep_for(20ms);
        HostBlock::release<kernels::cuda::Scope::system>(&world.panel(0).abort, std::uint32_t{1});
      });
      world.run({call}, 1);
      CHECK(world.panel(0).report.reason == Report::Reason::aborted);
      CHECK(std::chrono::steady_clock::now() - begin < 30s);
    }
}

// Proves: a message of another call (other collective, other count) is not accepted.
TEST_CASE("ranks in different calls end with a mismatch") {
  for (Protocol protocol : kProtocols) {
    World world(2, {protocol, 1, 256});
    Call call = ring(2);
    call.parts[0].signature = 0x1234;
    call.parts[1].signature = 0x4321;
    call.parts[0].after = call.parts[1].after = {};
    world.timeout = 2s;
    world.run({call}, 1);
    // The first rank that sees it ends. The other one may see it too, or may miss a message.
    const Report& zero = world.panel(0).report;
    const Report& one = world.panel(1).report;
    REQUIRE((zero.reason == Report::Reason::mismatch || one.reason == Report::Reason::mismatch));
    if (zero.reason == Report::Reason::mismatch) CHECK(zero.theirs == 0x4321);
    if (one.reason == Report::Reason::mismatch) CHECK(one.theirs == 0x1234);

    World sizes(2, {protocol, 1, 256});
    Call uneven{"different counts", {ring(2, 10).parts[0], ring(2, 12).parts[1]}};
    uneven.parts[0].after = uneven.parts[1].after = {};
    sizes.timeout = 2s;
    sizes.run({uneven}, 1);
    CHECK((sizes.panel(0).report.reason == Report::Reason::mismatch ||
           sizes.panel(1).report.reason == Report::Reason::mismatch));
  }
}

// Proves: a block that gives up ends the other blocks of its launch at once, although they wait for
// something else.
TEST_CASE("a mismatch in one copy ends the copy that waits for a message") {
  World world(2, {Protocol::simple, 1, 256}, {.copies = 2});
  world.timeout = 60s;
  Call call{"one tile against many", {ring(2, 1000).parts[0], ring(2, 10).parts[1]}};
  call.parts[0].after = call.parts[1].after = {};
  const auto begin = std::chrono::steady_clock::now();
  world.run({call}, 1);
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
  CHECK(world.panel(0).report.reason == Report::Reason::mismatch);
}

// Proves: after a halt, a launch does nothing, even if it needs no other rank.
TEST_CASE("a launch on a halted device touches no memory") {
  World world(1, {Protocol::simple, 1, 256});
  world.halt(0).halted = 1;
  Call call = ring(1);
  std::vector<std::int32_t> out(1000, 7);
  call.parts[0].output = out.data();
  call.parts[0].before = call.parts[0].after = {};
  world.run({call}, 1);
  CHECK(out == std::vector<std::int32_t>(1000, 7));
}

} // namespace rondo::test
