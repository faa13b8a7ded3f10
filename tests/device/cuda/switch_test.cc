// The driver's multicast objects under nvls: made, joined, bound and mapped in the order that CUDA
// requires, tested before use, and released by all ranks.
#include "device/cuda/cuda_machine.h"
#include "support/test.h"

namespace rondo::test {
namespace {

Options onGpu(const std::string& algorithm) {
  Options options = plainOptions("", algorithm);
  options.device = 0;
  return options;
}

FakeCuda::Settings switched(int devices) {
  FakeCuda::Settings settings;
  settings.devices = devices;
  settings.multicasts = true;
  return settings;
}

std::vector<CollectiveCase> cases() {
  std::vector<CollectiveCase> all;
  for (const Collective collective :
       {Collective::allreduce, Collective::reducescatter, Collective::allgather})
    for (const std::size_t count : {1, 5'003})
      all.push_back({.collective = collective, .count = count, .type = DataType::int32});
  return all;
}

const std::map<std::string, int> kNothing;

} // namespace

// Proves: all devices are added before memory is bound; windows and the object are mapped only for
// the device of their rank; nothing is left.
TEST_CASE("cuda: nvls uses multicast objects by CUDA's rules, and leaves nothing behind") {
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    const CudaMachine machine(switched(ranks));
    REQUIRE(runCases(ranks, ranks, onGpu("nvls"), cases()) == "");
    CHECK(machine.cuda.calls("cuMulticastCreate") == 1);
    CHECK(machine.cuda.calls("cuMulticastAddDevice") == ranks);
    CHECK(machine.cuda.calls("cuMulticastBindMem") == ranks);
    CHECK(machine.complaints() == "");
    CHECK(machine.cuda.held() == kNothing);
  }
}

// Proves: the test finds a switch that loses stores. All ranks then give it up and release
// everything that they made for it. If ranks share a GPU, or the driver has no multicast objects,
// no rank tries.
TEST_CASE("cuda: a switch that fails its test is not used, and leaves nothing behind") {
  FakeCuda::Settings lossy = switched(3);
  lossy.lose_switch_stores = true;
  {
    const CudaMachine machine(lossy);
    REQUIRE(runCases(3, 3, onGpu(""), cases()) == "");
    CHECK(machine.cuda.calls("cuMulticastBindMem") == 3);
    CHECK(machine.complaints() == "");
    CHECK(machine.cuda.held() == kNothing);
  }
  {
    const CudaMachine machine(lossy);
    CHECK(runCases(3, 3, onGpu("nvls"), cases()).find("was proved") != std::string::npos);
  }
  {
    const CudaMachine machine({.devices = 3});
    REQUIRE(runCases(3, 3, onGpu(""), cases()) == "");
    CHECK(machine.cuda.calls("cuMulticastCreate") == 0);
  }
  const CudaMachine machine(switched(2));
  REQUIRE(runCases(3, 2, onGpu(""), cases()) == "");
  CHECK(machine.cuda.calls("cuMulticastCreate") == 0);
}

// Proves: the fake reports memory that is bound before all devices were added.
TEST_CASE("the fake: binding memory before all devices were added is reported") {
  const CudaMachine machine(switched(2));
  {
    const auto device = device::openCudaDevice(0);
    const auto team = device->makeTeam(2, 1000);
    const auto windows = team->open();
    CHECK(machine.complaints().find("memory was bound") != std::string::npos);
    CHECK(machine.complaints().find("mapped before all devices") != std::string::npos);
  }
  CHECK(machine.cuda.held() == kNothing);
}

} // namespace rondo::test
