// Opens the module that is linked with UCX, when it is first needed.
#pragma once

#include <string>

#include "transports/ucx/module/module.h"

namespace rondo::transport::ucx {

/// On failure returns null and sets `why`. The module is opened once for each process. Any thread.
Module* openModule(std::string& why);

/// Why this build has no such module; empty: it has one.
std::string notBuilt();

} // namespace rondo::transport::ucx
