// Which devices get a context, and which device is current after a call.
#include <thread>

#include "device/cuda/cuda_machine.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// Runs the body on a thread that has not called CUDA yet.
template <class Body>
void onFreshThread(const Body& body) {
  std::jthread([&body] { body(); }).join();
}

} // namespace

// Proves: a rank on device 1 creates no context on device 0, whichever thread calls first. (A
// context takes half a gigabyte, and cannot be created if another process has the device
// exclusively.)
TEST_CASE("cuda: threads that have no device get no context on device 0") {
  const CudaMachine machine;
  onFreshThread([] {
    const auto device = device::openDevice(1);
    const device::Memory memory = device->allocate(100), host = device->allocateHost(100);
    const device::Device::Shared shared = device->allocateShared(100);
    const device::Memory mapped = device->mapShared(shared.handle.get(), 100);
    const auto mark = device->mark();
    std::byte byte{};
    device->read(&byte, memory.get(), 1);
    CHECK(device->sees(memory.get()));
  });
  CHECK(machine.cuda.contexts() == std::set<int>{1});
  CHECK(machine.complaints() == "");
}

// Proves: a call leaves the program's current device as it was, also if there was none.
TEST_CASE("cuda: the program's current device stays what it was") {
  const CudaMachine machine;
  const auto device = device::openDevice(1);
  must(cudaSetDevice(0));
  const device::Memory memory = device->allocate(100);
  int current = -1;
  must(cudaGetDevice(&current));
  CHECK(current == 0);
  cudaStream_t stream = nullptr; // of device 0
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  must(cudaStreamSynchronize(stream));
  must(cudaStreamDestroy(stream));
  CHECK(machine.complaints() == "");
}

} // namespace rondo::test
