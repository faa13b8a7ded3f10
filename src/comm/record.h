// What the record of calls says of a call's shape.
#pragma once

#include <cstdint>

#include "comm/call.h"
#include "comm/call_cache.h"
#include "observe/recorder.h"

namespace rondo::comm {

/// `algorithm`: see Recorder::algorithm().
observe::CallFacts recordOf(const Call& call, const CallCache::Known& known, std::uint8_t algorithm,
                            int ranks);

} // namespace rondo::comm
