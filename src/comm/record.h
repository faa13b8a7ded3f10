// Makes the facts about a call that the recorder stores: its shape, count and bytes.
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
