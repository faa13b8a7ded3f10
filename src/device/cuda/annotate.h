// Shows calls as NVTX ranges.
#pragma once

namespace rondo::device {

/// As annotateCalls(), in builds with CUDA.
void annotateCudaCalls();

} // namespace rondo::device
