// What streams are: flags by the runtime, the part of the device that they may use by the driver.
#include "device/cuda/streams.h"

#include "device/cuda/driver.h"
#include "rondo/error.h"

namespace rondo::device {

namespace {

/// Multiprocessors of the green context that the stream was made in; 0: in none. Drivers before
/// 12.5, and toolkits that do not know them, have none.
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
  must(green.resource(context, &part, CU_DEV_RESOURCE_TYPE_SM), "a stream's part of the device");
  return static_cast<int>(part.sm.smCount);
#else
  return 0;
#endif
}

} // namespace

StreamTraits traitsOf(cudaStream_t stream, int multiprocessors) {
  if (stream == cudaStreamPerThread)
    throw Error(ErrorCode::invalid_argument,
                "cudaStreamPerThread is another stream on each thread that makes a call: give the "
                "communicator a stream of its own (setStream)");
  if (stream == nullptr || stream == cudaStreamLegacy) return {true, multiprocessors};
  unsigned flags = 0;
  check(cudaStreamGetFlags(stream, &flags), "the stream cannot be used");
  const int green = greenMultiprocessors(stream);
  return {(flags & cudaStreamNonBlocking) == 0, green > 0 ? green : multiprocessors};
}

} // namespace rondo::device
