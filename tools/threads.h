// Runs functions on threads, and passes on what they throw.
#pragma once

#include <functional>

namespace rondo::tools {

/// Calls work(i) for each i from 0 to count - 1, each on a thread of its own, and returns when all
/// have ended. Rethrows the first exception in the order of i. Error(aborted) comes last: what one
/// rank throws ends the others with it.
void onThreads(int count, const std::function<void(int)>& work);

} // namespace rondo::tools
