// Machines that are not as kind as they could be: few hardware queues, few multiprocessors, a
// driver that waits for running kernels, devices that do not see each other.
#include "device_cuda/cuda_machine.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// A deadline that no call may miss here, unless it is to: memory would be freed under kernels.
Options onGpu(std::chrono::seconds deadline = std::chrono::seconds(60)) {
  Options options = plainOptions();
  options.device = 0;
  options.timeout = deadline;
  return options;
}

/// Ranks on one device, each with a stream and a buffer.
struct Ranks {
  explicit Ranks(int ranks, const Options& options = onGpu())
      : comm(Communicator::createAll(ranks, options)) {
    for (Communicator& one : comm) {
      streams.push_back(std::make_unique<CudaStream>());
      numbers.push_back(std::make_unique<Numbers>());
      one.setStream(streams.back()->handle());
    }
  }
  std::vector<std::unique_ptr<CudaStream>> streams; // outlive the communicators
  std::vector<std::unique_ptr<Numbers>> numbers;
  std::vector<Communicator> comm;
};

/// One thread makes two calls of rank 0, then two of rank 1.
Caught callsInTurn(const FakeCuda::Settings& settings, const Options& options) {
  const CudaMachine machine(settings);
  Ranks ranks(2, options);
  return caught([&ranks] {
    std::vector<Work> works;
    for (std::size_t r : {0u, 1u})
      for (int call = 0; call < 2; ++call) works.push_back(addUp(ranks.comm[r], *ranks.numbers[r]));
    for (Work& work : works) work.wait();
  });
}

} // namespace

// Proves: ranks whose streams share a hardware queue end at the deadline, as the documentation says
// they do, and with a queue each they do not.
TEST_CASE("cuda: ranks of a process need hardware queues of their own") {
  CHECK(callsInTurn({.queues = 1}, onGpu(std::chrono::seconds(2))).code == ErrorCode::timeout);
  CHECK(!callsInTurn({.queues = 8}, onGpu()).threw);
}

// Proves: all ranks' blocks are resident at once on a device that holds no more than the library
// counts with, for every number of ranks, with memory cleared for new channels meanwhile.
TEST_CASE("cuda: no rank waits for a multiprocessor that another one keeps") {
  for (int ranks : kRankCounts) {
    INFO(ranks << " ranks");
    const CudaMachine machine({.devices = 1, .multiprocessors = 4 * ranks + 1, .queues = 32});
    CHECK(
        runCases(ranks, 1, onGpu(),
                 {{.count = 1, .type = DataType::int32},
                  {.count = 50'000, .type = DataType::int32},
                  {.collective = Collective::alltoall, .count = 9000, .type = DataType::int32}}) ==
        "");
    CHECK(machine.complaints() == "");
  }
}

// Proves: nothing that a rank does for its first calls waits for kernels of ranks that wait for it,
// even if the driver waits wherever it may.
TEST_CASE("cuda: a driver that waits for running kernels holds nobody up") {
  for (int count : {2, 4, 7}) {
    INFO(count << " ranks");
    const CudaMachine machine({.devices = 1, .queues = 32, .pessimistic = true});
    Ranks ranks(count);
    CHECK(!caught([&ranks] {
             std::vector<Work> works; // each is new to its rank while kernels of others wait
             for (int call = 0; call < 2; ++call)
               for (std::size_t r = 0; r < ranks.comm.size(); ++r)
                 works.push_back(addUp(ranks.comm[r], *ranks.numbers[r]));
             for (Work& work : works) work.wait();
           }).threw);
    for (const auto& numbers : ranks.numbers)
      CHECK(numbers->all(static_cast<float>(count) * static_cast<float>(count)));
    CHECK(machine.complaints() == "");
  }
}

// Proves: devices that do not see each other are never given each other's memory.
TEST_CASE("cuda: without peer access ranks meet in host memory") {
  const CudaMachine machine({.devices = 2, .peers = false});
  CHECK(runCases(4, 2, onGpu(), {{.count = 20'000, .type = DataType::int32}}) == "");
  CHECK(machine.complaints() == "");
}

// Proves: a link counts as one only where stores of a kernel get to the peer's memory; that copies
// of the driver do says nothing of what kernels will do. Where nothing else may be used, ranks are
// told so; else they take what works.
TEST_CASE("cuda: a link is proved by a kernel's stores") {
  const CudaMachine machine({.devices = 2, .lose_peer_stores = true});
  Options only = onGpu();
  only.transports = "nvlink";
  const std::string refused = runCases(2, 2, only, {{.count = 1, .type = DataType::int32}});
  CHECK(refused.find("no transport") != std::string::npos);
  CHECK(runCases(2, 2, onGpu(), {{.count = 20'000, .type = DataType::int32}}) == "");
  CHECK(machine.complaints() == "");
}

} // namespace rondo::test
