// A device that does not move: what waits for it ends in time, and what its work may still use
// stays.
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "device_cuda/cuda_machine.h"
#include "device_cuda/fake/entry.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr std::chrono::milliseconds kTimeout{300};

/// Work on a stream that does not end before its release.
class Obstacle {
 public:
  explicit Obstacle(cudaStream_t stream) {
    put(stream, [held = held_] { held->wait(true); });
    put(stream, [] {}); // waits at the head of its queue, before all that comes later
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

// Proves: whatever waits for the device throws in time, and says which device did not do what;
// nothing is freed or unmapped that this may still touch, and nothing waits in a destructor. A
// device that moves again is used as before.
TEST_CASE("cuda: what waits for a device that does not move ends in time") {
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
    late([&] { device->write(memory.get(), words.data(), sizeof words); },
         "what was written to it");
    late([&] { device->allocate(256); }, "clear new memory");
    late([&] { device->allocateShared(256); }, "clear new memory");
    late([&] { device->read(words.data(), memory.get(), sizeof words); }, "what was asked before");
    late([&] { device->store(memory.get(), words); }, "store what proves a link");
    late([&] { device->load(memory.get()); }, "load what proves a link");
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
  // What was kept; all else is gone.
  CHECK(machine.cuda.held() == std::map<std::string, int>{{"mappings", 1}, {"memory of pools", 2}});
  CHECK(machine.complaints() == "");
}

} // namespace rondo::test
