// The v-forms on device buffers.
#include "device/device_ranks.h"
#include "support/test.h"
#include "support/uneven_case.h"

namespace rondo::test {

// Proves: ranks that cannot know all sizes still launch the same number of copies over the same
// tiles.
TEST_CASE("device buffers: every v-form moves blocks of any size to their places") {
  for (int size : kWholeGrid ? std::vector<int>{1, 2, 3, 5} : std::vector<int>{3}) {
    const HostDevices host;
    Options options = onDevice();
    options.channel_bytes = 16 << 10;
    options.channel_depth = 4;
    DeviceRanks world(size, options);
    INFO(size << " ranks");
    REQUIRE(firstComplaint(onRanks(world.all, [](Communicator& comm) {
              return everyUneven(comm, kWholeGrid ? 5 : 3);
            })) == "");
  }
}

// Proves: a rank passes on only what it has copied to its output, also in tiles in which most steps
// of the plan have no part.
TEST_CASE("device buffers: a composed allGatherv passes on no block before it is there") {
  const HostDevices host;
  Options options = onDevice("", "hierarchical");
  options.channel_bytes = 16 << 10;
  options.channel_depth = 4;
  DeviceRanks world(4, options, 1, 2);
  REQUIRE(firstComplaint(onRanks(
              world.all, [](Communicator& comm) { return lateAllGatherv(comm, 1 << 20); })) == "");
}

} // namespace rondo::test
