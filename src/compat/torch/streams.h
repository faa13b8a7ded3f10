// The streams of devices, for calls on tensors that are in a device's memory.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <optional>

#include "rondo/stream.h"

namespace rondo::compat {

/// The stream that torch's kernels go to now; nothing for host memory.
std::optional<c10::Stream> currentStream(c10::Device device);

/// As Rondo takes it. Throws NotImplementedError where torch was built without CUDA.
Stream toStream(const c10::Stream& stream);

} // namespace rondo::compat
