// A transport between threads that has what those of the registry have not: an address of 4 KiB,
// and a worker without which no message of any channel arrives.
#pragma once

#include "transports/registry.h"

namespace rondo::transport::test {

extern const Kind k_worked;

} // namespace rondo::transport::test
