// Finds and converts device streams, for calls on tensors in a device's memory.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <optional>

#include "rondo/stream.h"

namespace rondo::compat {

/// torch's current stream on the device; nullopt for host memory.
std::optional<c10::Stream> currentStream(c10::Device device);

/// Converts to Rondo's type. Throws NotImplementedError if torch was built without CUDA.
Stream toStream(const c10::Stream& stream);

} // namespace rondo::compat
