// A device that makes no progress: waits for it end in time, and memory that its work may still use
// stays.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "device/cuda/cuda_machine.h"
#include "device/cuda/fake/entry.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr std::chrono::milliseconds kTimeout{300};

/// Work on a stream that does not end before it is released.
class Obstacle {
 public:
  explicit Obstacle(cudaStream_t stream) {
    put(stream, [held = held_] { held->wait(true); });
    put(stream, [] {}); // waits at the head of its queue, before all later work
  }
  ~Obstacle() { release(); }
  Obstacle(const Obstacle&) = delete;
  Obstacle& operator=(const Obstacle&) = delete;

  void release() {
    *held_ = false;
    held_->notify_all();
  }

 private:
  static void put(cudaStream_t stream, std::function<void()> run) {
    const fake::Entry entry("a program's work");
    entry.state.put(*stream, std::move(run), true);
  }

  const std::shared_ptr<std::atomic<bool>> held_ = std::make_shared<std::atomic<bool>>(true);
};

} // namespace

// Proves: every wait for the device throws in time, with the device and the operation. Memory that
// the device may still use is not freed or unmapped, and no destructor waits. When the device makes
// progress again, it can be used as before.
TEST_CASE("cuda: waits for a device that makes no progress end in time") {
  const CudaMachine machine({.devices = 1, .queues = 1});
  {
    const CudaStream other;
    const auto device = device::openCudaDevice(0, kTimeout);
    const device::Memory memory = device->allocate(256);
    device::ProbeWords words{};
    std::optional<Obstacle> obstacle(std::in_place, other.get());
    const auto late = [&](const std::function<void()>& body, const char* what) {
      INFO(what);
      CHECK(says(caught(body), ErrorCode::timeout,
                 {"device 0 (fake GPU 0 at ", what, "within 300 ms"}));
    };
    late([&] { device->write(memory.get(), words.data(), sizeof words); }, "finish a copy to it");
    late([&] { device->allocate(256); }, "clear new memory");
    late([&] { device->allocateShared(256); }, "clear new memory");
    late([&] { device->read(words.data(), memory.get(), sizeof words); }, "finish an earlier copy");
    late([&] { device->store(memory.get(), words); }, "finish the stores that test a link");
    late([&] { device->load(memory.get()); }, "finish the loads that test a link");
    { const device::Memory unused = device->allocateUncleared(256); }
    CHECK(machine.cuda.calls("cudaFreeAsync") == 0);
    CHECK(machine.cuda.calls("cuMemUnmap") == 0);

    obstacle->release();
    words.fill(7);
    device->store(memory.get(), words);
    CHECK(device->load(memory.get()) == words);
    { const device::Memory used = device->allocate(256); }
    CHECK(machine.cuda.calls("cudaFreeAsync") == 1);
  }
  // The memory that was kept; all else is gone.
  CHECK(machine.cuda.held() == std::map<std::string, int>{{"mappings", 1}, {"memory of pools", 2}});
  CHECK(machine.complaints() == "");
}

// Proves: a communicator that gives up on its launches when it closes leaves them all memory that
// they use, windows and rings included. If they run later, they see the abort and do nothing.
TEST_CASE("cuda: the memory of a launch that does not end is never freed") {
  // On devices that no other case uses, because the kept memory outlives the machine.
  constexpr int kFirst = 4;
  const CudaMachine machine({.devices = kFirst + 2, .multicasts = true});
  const CudaStream streams[2] = {CudaStream(cudaStreamNonBlocking, kFirst),
                                 CudaStream(cudaStreamNonBlocking, kFirst + 1)};
  Numbers numbers[2];
  Obstacle obstacle(streams[0].get());
  {
    const Rendezvous meet = Rendezvous::inProcess(2);
    std::vector<std::future<Communicator>> coming;
    for (int rank : {0, 1}) {
      Options options = plainOptions("", "allreduce:nvls");
      options.device = kFirst + rank;
      options.timeout = kTimeout;
      coming.push_back(Communicator::createAsync(meet.as(rank), options));
    }
    std::vector<Work> works;
    std::vector<Communicator> ranks;
    for (auto& one : coming) ranks.push_back(one.get());
    for (std::size_t r : {0u, 1u}) {
      ranks[r].setStream(streams[r].handle());
      works.push_back(addUp(ranks[r], numbers[r]));
      works.push_back(ranks[r].broadcastAsync(numbers[r].data(), numbers[r].data(), kCount,
                                              DataType::float32, 0));
    }
  }
  obstacle.release();
  machine.cuda.held(); // all work on the streams has run
  CHECK(machine.complaints() == "");
  for (Numbers& one : numbers) CHECK(one.all(1));
}

} // namespace rondo::test
