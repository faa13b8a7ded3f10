// Shows calls in profilers of GPUs.
#pragma once

namespace rondo::device {

/// In a process that one of NVIDIA's profilers has started, and that can load the module with the
/// CUDA code, the calls of communicators that are opened from now on are NVTX ranges. Otherwise it
/// does nothing. Any thread.
void annotateCalls();

} // namespace rondo::device
