// The type of a stream, for code that must not include CUDA headers.
#pragma once

namespace rondo::device {

/// A cudaStream_t; null is the default stream.
using Stream = void*;

} // namespace rondo::device
