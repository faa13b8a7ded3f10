// The fake checks CUDA's rules: each case breaks one rule and must be reported.
#include <cuda.h>

#include <cstring>

#include "device/cuda/cuda_machine.h"
#include "support/test.h"

namespace rondo::test {

// Proves: a call that a strict capture forbids fails, is recorded, and ends the capture.
TEST_CASE("fake CUDA: calls that a capture forbids are refused") {
  const CudaMachine machine;
  const CudaStream stream;
  must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  void* memory = nullptr;
  CHECK(cudaHostAlloc(&memory, 10, 0) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(machine.complaints() == "cudaHostAlloc while a stream is being captured\n");
}

// Proves: a question about a captured stream fails in every mode and ends the capture, except the
// question about its capture. CUDA's documentation names no such rule; a GPU answered like this.
TEST_CASE("fake CUDA: a captured stream tells only that it is captured") {
  const CudaMachine machine;
  for (const bool flags : {true, false}) {
    const CudaStream stream;
    must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed));
    cudaStreamCaptureStatus status{};
    CHECK(cudaStreamIsCapturing(stream.get(), &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusActive);
    unsigned is = 0;
    CUgreenCtx green = nullptr;
    if (flags) CHECK(cudaStreamGetFlags(stream.get(), &is) == cudaErrorStreamCaptureUnsupported);
    else CHECK(cuStreamGetGreenCtx(stream.get(), &green) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureInvalidated);
  }
  CHECK(machine.complaints() ==
        "cudaStreamGetFlags of a stream that is being captured\n"
        "cuStreamGetGreenCtx of a stream that is being captured\n");
}

// Proves: captured work runs when the graph runs, not before, also on a stream that has joined the
// capture.
TEST_CASE("fake CUDA: graphs run the captured work in its order") {
  const CudaMachine machine;
  const CudaStream stream, forked;
  void* memory = nullptr;
  must(cudaMalloc(&memory, 2));
  auto* bytes = static_cast<char*>(memory);
  std::memcpy(bytes, "ab", 2);
  cudaEvent_t event = nullptr;
  must(cudaEventCreateWithFlags(&event, 0));
  must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  must(cudaMemsetAsync(bytes, 'x', 1, stream.get()));
  must(cudaEventRecord(event, stream.get()));
  must(cudaStreamWaitEvent(forked.get(), event));
  must(cudaMemcpyAsync(bytes + 1, bytes, 1, cudaMemcpyDefault, forked.get()));
  cudaGraph_t graph = nullptr;
  SECTION("a stream that was not joined again fails it") {
    CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureUnjoined);
  }
  SECTION("replayed") {
    must(cudaEventRecord(event, forked.get()));
    must(cudaStreamWaitEvent(stream.get(), event));
    must(cudaStreamEndCapture(stream.get(), &graph));
    CHECK(std::memcmp(bytes, "ab", 2) == 0);
    cudaGraphExec_t executable = nullptr;
    must(cudaGraphInstantiate(&executable, graph));
    must(cudaGraphLaunch(executable, stream.get()));
    must(cudaStreamSynchronize(stream.get()));
    CHECK(std::memcmp(bytes, "xx", 2) == 0);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }
  must(cudaEventDestroy(event));
  must(cudaFree(memory));
  CHECK(machine.complaints() == "");
}

// Proves: a stream may only be used while its device is current, an object may be destroyed only
// once, memory may be freed only once, and objects that are never freed are listed.
TEST_CASE("fake CUDA: wrong devices, double frees and leaks are reported") {
  const CudaMachine machine;
  {
    const CudaStream stream(cudaStreamNonBlocking, 1);
    must(cudaSetDevice(0));
    CHECK(cudaStreamSynchronize(stream.get()) == cudaErrorInvalidResourceHandle);
  }
  void* memory = nullptr;
  must(cudaMalloc(&memory, 10));
  CHECK(machine.cuda.held() == std::map<std::string, int>{{"memory", 1}});
  must(cudaFree(memory));
  must(cudaFree(memory));
  cudaEvent_t event = nullptr;
  must(cudaEventCreateWithFlags(&event, 0));
  must(cudaEventDestroy(event));
  CHECK(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
  CHECK(machine.complaints() ==
        "a stream of device 1 was used while device 0 is current\n"
        "memory was freed that is not allocated\n"
        "an event was destroyed that does not exist\n");
}

} // namespace rondo::test
