// Shows calls as NVTX ranges.
#pragma once

#include <cstdint>

namespace rondo::device {

/// As in CudaModule. Do nothing if the toolkit had no NVTX, or without a profiler.
std::uint64_t beginRange(const char* text);
void endRange(std::uint64_t range);

} // namespace rondo::device
