// Tests NCCL's functions on emulated devices. The library's sources are linked into the test.
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "compat/nccl/nccl_api.h"
#include "support/host_devices.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = 3000;

/// Several ranks of one thread, each on its own emulated device with its own stream.
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

  HostDevices host;
  std::vector<ncclComm_t> comms;
  std::vector<HostStream> streams;
};

} // namespace

// Proves: each call of a group runs on the stream that was passed to it, and is complete when the
// stream is. No call waits on the host.
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

// Proves: a captured graph can be replayed, and then uses the current contents of the buffers.
TEST_CASE("nccl on devices: calls are captured, and replayed") {
  OnDevices ranks(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(kCount));
  std::vector<float> from(2, -1);
  for (HostStream& stream : ranks.streams) stream.beginCapture();
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t r = 0; r < 2; ++r)
    CHECK(ncclAllReduce(data[r].data(), data[r].data(), kCount, ncclFloat, ncclSum, ranks.comms[r],
                        ranks.stream(r)) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t r = 0; r < 2; ++r) {
    const int peer = static_cast<int>(1 - r);
    CHECK(ncclSend(data[r].data(), 1, ncclFloat, peer, ranks.comms[r], ranks.stream(r)) ==
          ncclSuccess);
    CHECK(ncclRecv(&from[r], 1, ncclFloat, peer, ranks.comms[r], ranks.stream(r)) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  std::vector<HostStream::Graph> graphs;
  for (HostStream& stream : ranks.streams) graphs.push_back(stream.endCapture());
  for (const float value : {1.0F, 20.0F}) {
    for (std::size_t r = 0; r < 2; ++r) data[r].assign(kCount, value * static_cast<float>(r + 1));
    for (std::size_t r = 0; r < 2; ++r) ranks.streams[r].replay(graphs[r]);
    for (HostStream& stream : ranks.streams) stream.synchronize();
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(data[r] == std::vector<float>(kCount, 3 * value));
      CHECK(from[r] == 3 * value);
    }
  }
}

// Proves: if one call of a group cannot be made, the group's end says so, though other calls of the
// group run.
TEST_CASE("nccl on devices: a call that fails when the group ends is the group's error") {
  OnDevices ranks(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(kCount, 1));
  std::vector<float> hidden(kCount);
  ranks.host.hide(hidden.data());
  std::atomic<bool> go{false};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t r = 0; r < 2; ++r) {
    ranks.streams[r].push([&] { go.wait(false); });
    CHECK(ncclAllReduce(data[r].data(), data[r].data(), kCount, ncclFloat, ncclSum, ranks.comms[r],
                        ranks.stream(r)) == ncclSuccess);
  }
  CHECK(ncclAllReduce(hidden.data(), hidden.data(), kCount, ncclFloat, ncclSum, ranks.comms[0],
                      ranks.stream(0)) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(std::string(ncclGetLastError(nullptr)).find("not memory that") != std::string::npos);
  go = true;
  go.notify_all();
  for (std::size_t r = 0; r < 2; ++r) {
    ranks.streams[r].synchronize();
    CHECK(data[r] == std::vector<float>(kCount, 2));
  }
}

// Proves: a kernel that waits for a missing rank ends when another thread aborts the communicator.
TEST_CASE("nccl on devices: an abort in another thread ends a waiting launch") {
  OnDevices ranks(2);
  std::vector<float> data(kCount, 1);
  // The abort must work whether or not the launch has begun.
  const std::jthread aborting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ncclCommAbort(ranks.comms[0]);
  });
  const ncclResult_t called = ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, ncclSum,
                                            ranks.comms[0], ranks.stream(0));
  CHECK((called == ncclSuccess || called == ncclRemoteError));
  ranks.streams[0].synchronize();
  ncclResult_t state = ncclSuccess;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (ncclCommGetAsyncError(ranks.comms[1], &state) == ncclSuccess && state == ncclSuccess &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  CHECK(state == ncclRemoteError);
  CHECK(std::string(ncclGetLastError(ranks.comms[1])).find("rank 0 aborted") != std::string::npos);
}

// Proves: communicators on devices cannot grow, and those on host memory cannot grow by a rank on a
// device. All ranks, including the joining one, get the error long before a deadline.
TEST_CASE("nccl on devices: growth is refused on all ranks") {
  const auto growth = [](std::vector<ncclComm_t> parents, const char* joiner, const char* words) {
    const int size = static_cast<int>(parents.size()) + 1;
    ncclUniqueId id;
    REQUIRE(ncclCommGetUniqueId(parents[0], &id) == ncclSuccess);
    std::vector<ncclComm_t> grown(parents.size() + 1);
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (std::size_t r = 0; r < parents.size(); ++r)
      CHECK(ncclCommGrow(parents[r], size, &id, -1, &grown[r], nullptr) == ncclSuccess);
    ::setenv("RONDO_DEVICE", joiner, 1);
    CHECK(ncclCommGrow(nullptr, size, &id, size - 1, &grown.back(), nullptr) == ncclSuccess);
    ::unsetenv("RONDO_DEVICE");
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    for (ncclComm_t one : grown) {
      ncclResult_t state = ncclSuccess;
      CHECK(ncclCommGetAsyncError(one, &state) == ncclSuccess);
      CHECK(state == ncclInvalidUsage);
      CHECK(std::string(ncclGetLastError(one)).find(words) != std::string::npos);
    }
  };
  OnDevices ranks(2);
  growth(ranks.comms, "1", "GPUs do not grow");
  ncclComm_t on_host[2] = {};
  ::setenv("RONDO_DEVICE", "-1", 1);
  REQUIRE(ncclCommInitAll(on_host, 2, nullptr) == ncclSuccess);
  growth({on_host[0], on_host[1]}, "0", "some ranks use a device (2)");
  for (ncclComm_t one : on_host) CHECK(ncclCommDestroy(one) == ncclSuccess);
}

// Proves: a factor in device memory is read when the call runs on the stream, and each rank uses
// its own factor. The operator is refused for other types.
TEST_CASE("nccl on devices: factors in the device's memory") {
  OnDevices ranks(2);
  std::vector<float> factor(2, 100);
  std::vector<std::vector<float>> data(2, std::vector<float>(kCount, 1));
  std::vector<ncclRedOp_t> op(2);
  for (std::size_t r = 0; r < 2; ++r)
    REQUIRE(ncclRedOpCreatePreMulSum(&op[r], &factor[r], ncclFloat, ncclScalarDevice,
                                     ranks.comms[r]) == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t r = 0; r < 2; ++r) {
    ranks.streams[r].push([&, r] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      factor[r] = static_cast<float>(2 + r);
    });
    CHECK(ncclAllReduce(data[r].data(), data[r].data(), kCount, ncclFloat, op[r], ranks.comms[r],
                        ranks.stream(r)) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (std::size_t r = 0; r < 2; ++r) {
    ranks.streams[r].synchronize();
    CHECK(data[r] == std::vector<float>(kCount, 5));
    CHECK(ncclAllReduce(data[r].data(), data[r].data(), kCount, ncclInt32, op[r], ranks.comms[r],
                        ranks.stream(r)) == ncclInvalidArgument);
    CHECK(ncclRedOpDestroy(op[r], ranks.comms[r]) == ncclSuccess);
  }
}

// Proves: calls that devices do not support are refused with an explanation, and an error of a
// launch is reported without a call that waits.
TEST_CASE("nccl on devices: refusals and failures") {
  OnDevices ranks(2);
  float factor = 0.5F;
  ncclRedOp_t op{};
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate,
                                   ranks.comms[0]) == ncclSuccess);
  std::vector<float> data(kCount, 1);
  CHECK(ncclCommAbort(ranks.comms[1]) == ncclSuccess);
  CHECK(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, op, ranks.comms[1],
                      ranks.stream(1)) == ncclInvalidArgument);
}

} // namespace rondo::test
