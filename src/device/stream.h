// The one thing of CUDA's that host code, kernels' headers and tests all pass on.
#pragma once

namespace rondo::device {

/// A cudaStream_t; null is the default stream.
using Stream = void*;

} // namespace rondo::device
