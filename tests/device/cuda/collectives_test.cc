// Public calls on the fake CUDA runtime: all code between them and the kernels' source is the code
// that runs on a GPU.

#include "device/cuda/cuda_machine.h"
#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

std::vector<CollectiveCase> everyCollective() {
  std::vector<CollectiveCase> cases;
  for (Collective collective : kCollectives)
    for (std::size_t count : {0, 1, 12'001})
      if (collective != Collective::sendrecv && (count == 0 || collective != Collective::barrier))
        cases.push_back({.collective = collective, .count = count, .type = DataType::int32});
  return cases;
}

Options onGpu(const std::string& transports) {
  Options options = plainOptions(transports);
  options.device = 0;
  options.channel_bytes = 4 << 10;
  options.channel_depth = 4;
  return options;
}

} // namespace

// Proves: every collective is right, between devices that see each other and through host memory,
// and breaks none of CUDA's rules. No CUDA object is left when all communicators are closed.
TEST_CASE("cuda: collectives are right, keep the rules and leave nothing behind") {
  for (const char* transport : {"nvlink", "pcie"})
    for (int ranks : kRankCounts) {
      INFO(transport << ", " << ranks << " ranks");
      const CudaMachine machine({.queues = 32});
      REQUIRE(runCases(ranks, 2, onGpu(transport), everyCollective()) == "");
      CHECK(machine.complaints() == "");
      CHECK(machine.cuda.held() == std::map<std::string, int>{});
    }
}

} // namespace rondo::test
