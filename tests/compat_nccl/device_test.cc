// NCCL's functions on devices, which are emulated: the library's sources, linked to the test.
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "compat/nccl/nccl_api.h"
#include "support/host_devices.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = 3000;

/// Ranks of one thread on emulated devices, with a stream each.
class OnDevices {
 public:
  explicit OnDevices(int ranks)
      : host({.devices = ranks}), comms(static_cast<std::size_t>(ranks)), streams(comms.size()) {
    ::setenv("RONDO_DEVICE", "0", 1);
    const ncclResult_t made = ncclCommInitAll(comms.data(), ranks, nullptr);
    ::unsetenv("RONDO_DEVICE");
    INFO(ncclGetLastError(nullptr));
    REQUIRE(made == ncclSuccess);
  }
  ~OnDevices() {
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  }
  cudaStream_t stream(std::size_t rank) {
    return static_cast<cudaStream_t>(streams[rank].handle().handle());
  }

  const HostDevices host;
  std::vector<ncclComm_t> comms;
  std::vector<HostStream> streams;
};

} // namespace

// Proves: calls of a group are launched on the streams that each was given, and are done when these
// are; nobody waits on the host.
TEST_CASE("nccl on devices: one thread calls for all ranks, on streams") {
  OnDevices ranks(3);
  std::vector<std::vector<float>> input(3, std::vector<float>(kCount, -1)),
      output(3, std::vector<float>(kCount, -1));
  std::vector<float> got(3, -1);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t r = 0; r < 3; ++r) {
    ranks.streams[r].push([&, r] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      input[r].assign(kCount, static_cast<float>(r + 1));
    });
    CHECK(ncclAllReduce(input[r].data(), output[r].data(), kCount, ncclFloat, ncclSum,
                        ranks.comms[r], ranks.stream(r)) == ncclSuccess);
  }
  for (std::size_t r = 0; r < 3; ++r) CHECK(output[r][0] == -1);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t r = 0; r < 3; ++r) {
    const int left = static_cast<int>((r + 2) % 3), right = static_cast<int>((r + 1) % 3);
    CHECK(ncclSend(&input[r][5], 1, ncclFloat, right, ranks.comms[r], ranks.stream(r)) ==
          ncclSuccess);
    CHECK(ncclRecv(&got[r], 1, ncclFloat, left, ranks.comms[r], ranks.stream(r)) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (std::size_t r = 0; r < 3; ++r) {
    ranks.streams[r].synchronize();
    CHECK(output[r] == std::vector<float>(kCount, 6));
    CHECK(got[r] == static_cast<float>((r + 2) % 3 + 1));
    ncclResult_t state = ncclInProgress;
    int device = -5;
    while (ncclCommGetAsyncError(ranks.comms[r], &state) == ncclSuccess && state == ncclInProgress)
      std::this_thread::yield();
    CHECK(state == ncclSuccess);
    CHECK(ncclCommCuDevice(ranks.comms[r], &device) == ncclSuccess);
    CHECK(device == static_cast<int>(r));
  }
}

// Proves: what a device cannot do yet is refused in words, and what a launch meets shows without a
// call that waits.
TEST_CASE("nccl on devices: refusals and failures") {
  OnDevices ranks(2);
  float factor = 0.5F;
  ncclRedOp_t op{};
  CHECK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarDevice, ranks.comms[0]) ==
        ncclInvalidUsage);
  CHECK(std::string(ncclGetLastError(nullptr)).find("HostImmediate") != std::string::npos);
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate,
                                   ranks.comms[0]) == ncclSuccess);
  std::vector<float> data(kCount, 1);
  CHECK(ncclCommAbort(ranks.comms[1]) == ncclSuccess);
  CHECK(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, op, ranks.comms[1],
                      ranks.stream(1)) == ncclInvalidArgument);
}

} // namespace rondo::test
