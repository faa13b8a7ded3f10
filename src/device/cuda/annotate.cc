// Ranges of asynchronous calls overlap, and begin and end on different threads, so these are
// process ranges with an id.
#include "device/cuda/annotate.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace rondo::device {

std::uint64_t beginRange(const char* text) { return ::nvtxRangeStartA(text); }
void endRange(std::uint64_t range) { ::nvtxRangeEnd(range); }

} // namespace rondo::device

#else

namespace rondo::device {

std::uint64_t beginRange(const char*) { return 0; }
void endRange(std::uint64_t) {}

} // namespace rondo::device

#endif
