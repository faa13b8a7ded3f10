// The module that is linked with UCX, opened when somebody wants it.
#pragma once

#include <string>

#include "transports/ucx/module/module.h"

namespace rondo::transport::ucx {

/// Null, and `why`. Opened once per process. Any thread.
Module* openModule(std::string& why);

/// Why this build has no such module; empty: it has.
std::string notBuilt();

} // namespace rondo::transport::ucx
