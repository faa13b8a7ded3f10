// A transport between threads with properties that those of the registry do not have: an address of
// 4 KiB, and a worker that must run for messages of any channel to arrive.
#pragma once

#include "transports/registry.h"

namespace rondo::test {

using namespace transport;

extern const Kind k_worked;

} // namespace rondo::test
