// The correctness grid of device buffers, from the public call to the plan kernel, on emulated
// devices.
#include "device/device_cases.h"
#include "device/device_ranks.h"
#include "support/test.h"
#include "transports/registry.h"

namespace rondo::test {

// Proves: the planner's choice gives the right result for every collective, on every transport
// between devices, on one device and on one device for each rank.
TEST_CASE("device buffers: every collective gives the right result") {
  for (const transport::Kind& transport : transport::deviceKinds())
    for (int ranks : kWholeGrid ? kRankCounts : std::vector<int>{1, 3})
      for (int devices : {1, ranks}) {
        const HostDevices host({.devices = devices});
        DeviceRanks world(ranks, smallSlots(std::string(transport.name)), devices);
        INFO(transport.name << ", " << ranks << " ranks on " << devices << " devices");
        REQUIRE(world.run(casesOf(nullptr, ranks)) == "");
      }
}

// Proves: every algorithm's plan gives the right result with the copies and protocols that the
// engine chooses.
TEST_CASE("device buffers: every algorithm gives the right result") {
  const HostDevices host;
  for (int ranks : kWholeGrid ? std::vector<int>{2, 3, 5, 8} : std::vector<int>{3})
    for (const plan::Algorithm* algorithm : plan::algorithms()) {
      const auto cases = casesOf(algorithm, ranks);
      if (cases.empty()) continue;
      DeviceRanks world(ranks, smallSlots("", std::string(algorithm->name)));
      INFO(algorithm->name << ", " << ranks << " ranks");
      REQUIRE(world.run(cases) == "");
    }
}

// Proves: each type and operator selects the right kernel, with either protocol.
TEST_CASE("device buffers: every type and operator gives the right result", "[sums]") {
  const HostDevices host;
  // A type's lanes use the same code for any number of ranks.
  for (int ranks : kWholeGrid ? std::vector<int>{1, 2, 4} : std::vector<int>{2}) {
    std::vector<CollectiveCase> cases;
    for (Collective collective :
         {Collective::allreduce, Collective::reduce, Collective::reducescatter})
      for (DataType type : kDataTypes)
        for (ReduceOp op : kReduceOps) {
          if (!op.supports(type)) continue;
          for (std::size_t count : {std::size_t{5}, std::size_t{40'003}})
            if (count == 5 || collective == Collective::allreduce)
              cases.push_back({collective, count, type, op, ranks - 1, count == 5});
        }
    DeviceRanks world(ranks, onDevice());
    INFO(ranks << " ranks");
    REQUIRE(world.run(cases) == "");
  }
}

// Proves: copies lend messages larger than a slot tile after tile, in place too.
TEST_CASE("device buffers: lent messages of many tiles give the right result") {
  const HostDevices host({.blocks = 4});
  DeviceRanks world(2, onDevice("", "direct"));
  std::vector<CollectiveCase> cases;
  for (Collective collective :
       {Collective::allreduce, Collective::reducescatter, Collective::allgather})
    for (bool in_place : {false, true})
      cases.push_back({collective, 1'500'001, DataType::int32, ReduceOp::sum, 0, in_place});
  REQUIRE(world.run(cases) == "");
}

// Proves: blocks of several threads reach the plan kernel's block barriers in the right order in
// the engine's own launches.
TEST_CASE("device buffers: blocks of several threads give the right result") {
  const HostDevices host({.threads = 3});
  DeviceRanks world(2, smallSlots(""));
  std::vector<CollectiveCase> cases;
  for (const CollectiveCase& one : casesOf(nullptr, 2))
    if (one.count < 2000) cases.push_back(one);
  REQUIRE(world.run(cases) == "");
}

// Proves: repeated calls allocate nothing, and a communicator frees its device memory.
TEST_CASE("device buffers: memory is allocated once and freed") {
  const HostDevices host;
  {
    DeviceRanks world(3, onDevice());
    const CollectiveCase call{.count = 10'000, .type = DataType::float32};
    REQUIRE(world.run({call}) == "");
    const auto before = host.allocations();
    const MemoryUse use = world.all[0].memory();
    REQUIRE(world.run({call, call, call}) == "");
    CHECK(host.allocations() == before);
    CHECK(world.all[0].memory().bytes() == use.bytes());
    CHECK(use.slots > 0);
  }
  CHECK(host.allocations() == 0);
}

} // namespace rondo::test
