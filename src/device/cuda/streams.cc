// Reads the properties of streams: the flags from the runtime, the usable part of the device from
// the driver.
#include "device/cuda/streams.h"

#include "device/cuda/driver.h"
#include "rondo/error.h"

namespace rondo::device {

namespace {

/// Multiprocessors of the green context in which the stream was created; 0 if it was created in
/// none. Drivers and toolkits before 12.5 have no green contexts.
int greenMultiprocessors([[maybe_unused]] cudaStream_t stream) {
#if CUDA_VERSION >= 12050
  struct Green {
    decltype(&cuStreamGetGreenCtx) of_stream = nullptr;
    decltype(&cuGreenCtxGetDevResource) resource = nullptr;
    Green() {
      try {
        of_stream = entry<decltype(of_stream)>("cuStreamGetGreenCtx", 12050);
        resource = entry<decltype(resource)>("cuGreenCtxGetDevResource", 12050);
      } catch (const Error&) {
        of_stream = nullptr;
      }
    }
  };
  static const Green green;
  CUgreenCtx context = nullptr;
  if (!green.of_stream || green.of_stream(stream, &context) != CUDA_SUCCESS || !context) return 0;
  CUdevResource part{};
  must(green.resource(context, &part, CU_DEV_RESOURCE_TYPE_SM),
       "cannot read the multiprocessors of a green context");
  return static_cast<int>(part.sm.smCount);
#else
  return 0;
#endif
}

} // namespace

StreamTraits traitsOf(cudaStream_t stream, int multiprocessors) {
  if (stream == cudaStreamPerThread)
    throw Error(ErrorCode::invalid_argument,
                "cudaStreamPerThread is a different stream on each thread: give the "
                "communicator a stream of its own (setStream)");
  if (stream == nullptr || stream == cudaStreamLegacy) return {true, multiprocessors, false};
  // The only question about a captured stream that CUDA answers; others end the capture.
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream, &status), "cannot use the stream");
  if (status != cudaStreamCaptureStatusNone) return {false, multiprocessors, true};
  unsigned flags = 0;
  check(cudaStreamGetFlags(stream, &flags), "cannot read the flags of the stream");
  const int green = greenMultiprocessors(stream);
  return {(flags & cudaStreamNonBlocking) == 0, green > 0 ? green : multiprocessors, false};
}

} // namespace rondo::device
