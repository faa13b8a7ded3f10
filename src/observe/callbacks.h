// Calls the program's callbacks at the begin and end of calls.
#pragma once

#include <memory>
#include <vector>

#include "observe/listener.h"

namespace rondo::observe {

class Recorder;

/// A listener for the recorder's calls that calls the callbacks registered by now; null if there
/// are none. Any thread.
std::unique_ptr<CallListener> callbackListener(const Recorder& recorder);

} // namespace rondo::observe
