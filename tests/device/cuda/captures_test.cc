// The library's work while the program captures a stream.
#include <sys/mman.h>

#include "base/memory_file.h"
#include "device/cuda/cuda_machine.h"
#include "support/test.h"

namespace rondo::test {

// Proves: everything that a device does for others (allocating, mapping, querying marks, freeing)
// is allowed while a stream of the process is captured in the strictest mode, and does not end that
// capture.
TEST_CASE("cuda: a capture in progress is not disturbed") {
  const CudaMachine machine;
  const auto device = device::openDevice(0);
  constexpr std::size_t kBytes = 4096;
  const base::UniqueFd file = base::makeMemoryFile(kBytes);
  const CudaStream stream, other;
  const auto mark = device->mark();
  mark->record(other.get());
  device::Memory before =
      device->mapHost(base::mapMemoryFile(file.get(), kBytes, PROT_READ | PROT_WRITE), kBytes);

  must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  before = nullptr;
  {
    const device::Memory memory = device->allocate(100), host = device->allocateHost(54321);
    const device::Device::Shared shared = device->allocateShared(100);
    const device::Memory mapped = device->mapShared(shared.handle.get(), 100);
    const device::Memory of_host =
        device->mapHost(base::mapMemoryFile(file.get(), kBytes, PROT_READ | PROT_WRITE), kBytes);
    const auto another = device->mark();
    while (!mark->passed()) std::this_thread::yield();
  }
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
  if (graph) cudaGraphDestroy(graph);
  CHECK(machine.complaints() == "");
}

} // namespace rondo::test
