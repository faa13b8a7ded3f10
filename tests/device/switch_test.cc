// A switch between devices, from the opening of a communicator to the plan kernel, on emulated
// devices.
#include "device/device_ranks.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

std::vector<CollectiveCase> casesOf(DataType type, ReduceOp op) {
  std::vector<CollectiveCase> cases;
  for (const Collective collective :
       {Collective::allreduce, Collective::reducescatter, Collective::allgather})
    for (const std::size_t count : {0, 1, 333, 20'001})
      for (const bool in_place : {false, true})
        cases.push_back({.collective = collective,
                         .count = count,
                         .type = type,
                         .op = op,
                         .in_place = in_place,
                         .async = true});
  return cases;
}

HostDevices::Settings switched(int devices) {
  return {.devices = devices, .blocks = 8, .multicasts = true};
}

/// The error of an AllReduce by the algorithms asked for; empty if it succeeds.
std::string refused(DeviceRanks& world, DataType type, ReduceOp op) {
  try {
    return world.run({{.count = 100, .type = type, .op = op}});
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unsupported);
    return error.what();
  }
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

// Proves: all ranks of a communicator make, test and use windows, in all calls that a switch
// supports, for types that are added in different ways.
TEST_CASE("a switch between devices: nvls gives the right result when asked for by name") {
  for (const int ranks : {1, 2, 3, 5}) {
    const HostDevices host(switched(ranks));
    DeviceRanks world(ranks, onDevice("", "nvls"), ranks);
    INFO(ranks << " ranks");
    REQUIRE(world.run(casesOf(DataType::int32, ReduceOp::sum)) == "");
    REQUIRE(world.run(casesOf(DataType::float16, ReduceOp::avg)) == "");
  }
}

// Proves: the planner uses the switch for large AllReduces of many ranks, if the test of the switch
// succeeded and nothing forbids it.
TEST_CASE("a switch between devices is used for large AllReduces") {
  const HostDevices host(switched(4));
  DeviceRanks world(4, onDevice(), 4);
  CHECK(world.all[0].algorithmFor(Collective::allreduce, 1 << 20, DataType::float32) == "nvls");
  CHECK(world.all[0].algorithmFor(Collective::allreduce, 1 << 20, DataType::int8) == "direct");
  CHECK(world.all[0].algorithmFor(Collective::allreduce, 100, DataType::float32) == "oneshot");
  CHECK(world.run({{.count = 1 << 18, .type = DataType::float32, .async = true}}) == "");

  Options deterministic = onDevice();
  deterministic.deterministic = true;
  DeviceRanks ordered(4, deterministic, 4);
  CHECK(ordered.all[0].algorithmFor(Collective::allreduce, 1 << 20, DataType::float32) == "direct");
}

// Proves: a call that names nvls where it cannot be used gets the reason: deterministic mode, an
// operator that no switch has, devices that do not support it, or a switch that does not reach
// every device, which only the test finds. Other calls use another algorithm.
TEST_CASE("a switch that cannot be used is never used, and asking for it by name gets the reason") {
  Options options = onDevice("", "nvls");
  {
    const HostDevices host(switched(2));
    DeviceRanks world(2, options, 2);
    CHECK(contains(refused(world, DataType::float32, ReduceOp::prod), "reduces this type"));
    CHECK(contains(refused(world, DataType::int8, ReduceOp::sum), "reduces this type"));
    CHECK(refused(world, DataType::float32, ReduceOp::sum) == "");
    options.deterministic = true;
    DeviceRanks ordered(2, options, 2);
    CHECK(contains(refused(ordered, DataType::float32, ReduceOp::sum),
                   "nvls does not reduce in rank order, as deterministic mode demands"));
    options.deterministic = false;
  }
  for (const bool none : {false, true}) {
    HostDevices::Settings settings = switched(3);
    settings.multicasts = !none;
    settings.out_of_switch = none ? -1 : 1;
    const HostDevices host(settings);
    DeviceRanks named(3, options, 3);
    CHECK(contains(refused(named, DataType::float32, ReduceOp::sum), "was proved"));
    DeviceRanks free(3, onDevice(), 3);
    CHECK(free.run(casesOf(DataType::int32, ReduceOp::sum)) == "");
  }
}

} // namespace rondo::test
