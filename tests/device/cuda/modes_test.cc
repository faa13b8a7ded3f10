// Unfavourable machines: few hardware queues, few multiprocessors, a driver that waits for running
// kernels, devices that do not see each other.
#include "device/cuda/cuda_machine.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// A deadline that calls must meet, except in tests of the deadline itself: after a miss, memory
/// would be freed under running kernels.
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

// Proves: ranks whose streams share a hardware queue end at the deadline, as documented; with a
// queue for each they do not.
TEST_CASE("cuda: ranks of a process need hardware queues of their own") {
  CHECK(callsInTurn({.queues = 1}, onGpu(std::chrono::seconds(2))).code == ErrorCode::timeout);
  CHECK(!callsInTurn({.queues = 8}, onGpu()).threw);
}

// Proves: the blocks of all ranks are resident at once on a device that holds only as many as the
// library assumes, for every number of ranks, while memory is cleared for new channels.
TEST_CASE("cuda: no rank waits for a multiprocessor that another rank keeps") {
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

// Proves: on GPUs before sm_90, whose kernels do not wait for the kernel ahead of them, and with
// drivers that cannot capture such launches, no launch starts early.
TEST_CASE("cuda: launches start early only where the code waits and the driver can capture them") {
  for (const FakeCuda::Settings& settings :
       {FakeCuda::Settings{.architecture = 80}, FakeCuda::Settings{.driver = 12020},
        FakeCuda::Settings{}}) {
    INFO("sm_" << settings.architecture << ", driver " << settings.driver);
    const CudaMachine machine(settings);
    CHECK(runCases(2, 1, onGpu(), {{.count = 1, .type = DataType::int32}}) == "");
    CHECK(machine.complaints() == "");
  }
}

// Proves: nothing that a rank does for its first calls waits for kernels of ranks that wait for it,
// even if the driver waits wherever it may.
TEST_CASE("cuda: a driver that waits for running kernels blocks no rank") {
  for (int count : {2, 4, 7}) {
    INFO(count << " ranks");
    const CudaMachine machine({.devices = 1, .queues = 32, .pessimistic = true});
    Ranks ranks(count);
    CHECK(!caught([&ranks] {
             std::vector<Work> works; // each is new to its rank while kernels of other ranks wait
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
TEST_CASE("cuda: without peer access ranks use host memory") {
  const CudaMachine machine({.devices = 2, .peers = false});
  CHECK(runCases(4, 2, onGpu(), {{.count = 20'000, .type = DataType::int32}}) == "");
  CHECK(machine.complaints() == "");
}

// Proves: a link is used only if the stores of a kernel reach the peer's memory, because copies of
// the driver may take another path. If no other link may be used, the ranks get an error; otherwise
// they use one that works.
TEST_CASE("cuda: a link is tested by a kernel's stores") {
  const CudaMachine machine({.devices = 2, .lose_peer_stores = true});
  Options only = onGpu();
  only.transports = "nvlink";
  const std::string refused = runCases(2, 2, only, {{.count = 1, .type = DataType::int32}});
  CHECK(refused.find("no transport") != std::string::npos);
  CHECK(runCases(2, 2, onGpu(), {{.count = 20'000, .type = DataType::int32}}) == "");
  CHECK(machine.complaints() == "");
}

} // namespace rondo::test
