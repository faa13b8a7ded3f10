// Implements access to CUDA streams if torch has CUDA (RONDO_TORCH_CUDA).
#include "compat/torch/streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#if defined(RONDO_TORCH_CUDA)
#include <c10/cuda/CUDAStream.h>
#endif

namespace rondo::compat {

std::optional<c10::Stream> currentStream(c10::Device device) {
  if (device.is_cpu()) return {};
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

Stream toStream(const c10::Stream& stream) {
#if defined(RONDO_TORCH_CUDA)
  return Stream(c10::cuda::CUDAStream(stream).stream());
#else
  (void)stream;
  C10_THROW_ERROR(NotImplementedError, "rondo: rondo_torch was built with a torch without CUDA");
#endif
}

} // namespace rondo::compat
